// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/stacks/job_processes.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <fcntl.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "node/node_name.hpp"
#include "node/stacks/kernel_threads.hpp"
#include "node/stacks/proc_text.hpp"
#include "node/usage/processes.hpp"

namespace batchai::node {

namespace {

constexpr std::size_t longest_program = 120;

std::optional<int> number_of(std::string_view environment, std::string_view name) {
    const auto text = variable_in(environment, name);
    return text ? base::number_in<int>(*text) : std::nullopt;
}

// The rank that a launcher below Slurm has given. The plugin sets RANK and TORCHELASTIC_RUN_ID,
// too, but torchrun alone the first one here.
std::optional<int> launched_rank(std::string_view environment) {
    if (variable_in(environment, "TORCHELASTIC_USE_AGENT_STORE"))
        return number_of(environment, "RANK");
    // MPICH and Intel MPI: srun sets only the second one.
    if (variable_in(environment, "MPI_LOCALRANKID")) return number_of(environment, "PMI_RANK");
    return number_of(environment, "OMPI_COMM_WORLD_RANK");
}

std::string program_of(pid_t process) {
    std::string words = proc_text(process, "cmdline");
    while (!words.empty() && words.back() == '\0')
        words.pop_back();
    std::replace(words.begin(), words.end(), '\0', ' ');
    const bool is_long = words.size() > longest_program;
    return base::printable_line(words.substr(0, longest_program)) + (is_long ? "…" : "");
}

bool is_ours(std::string_view program) {
    return program.substr(0, program.find(' ')).ends_with("/batchai-node") ||
           program.find("/batchai watch-first-node ") != std::string_view::npos;
}

SeenProcesses processes_of_user() {
    SeenProcesses found;
    const base::FileDescriptor proc(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (const auto& [number, stat] : own_processes(proc.get())) {
        if (stat.state == 'Z') continue;
        visit::JobProcess& process = found[number].process;
        process.process = number;
        process.parent = stat.parent;
        process.threads = stat.threads;
    }
    return found;
}

// What the environment says of a process, or what is known of its parent.
struct Belonging {
    std::string job;  // empty: unknown
    std::string step;
    std::string node{};  // empty: unknown
    std::optional<int> rank;
    bool launched = false;
};

Belonging belonging_of(std::string_view environment) {
    Belonging own;
    own.job = variable_in(environment, "SLURM_JOB_ID").value_or("");
    own.step = variable_in(environment, "SLURM_STEP_ID").value_or("");
    own.node = variable_in(environment, "SLURMD_NODENAME").value_or("");
    if (own.step.empty()) own.job.clear();
    own.rank = launched_rank(environment);
    own.launched = own.rank.has_value();
    if (!own.rank) own.rank = number_of(environment, "SLURM_PROCID");
    return own;
}

// slurmstepd calls itself "slurmstepd: [JOB.STEP]".
Belonging child_of_slurmstepd(pid_t parent) {
    Belonging own;
    const std::string title = proc_text(parent, "cmdline");
    const std::size_t open = title.find('[');
    const std::size_t dot = title.find('.', open);
    const std::size_t close = title.find(']', dot);
    if (!title.starts_with("slurmstepd: ") || close == std::string::npos) return own;
    own.job = title.substr(open + 1, dot - open - 1);
    own.step = title.substr(dot + 1, close - dot - 1);
    return own;
}

std::map<pid_t, Belonging> belongings(const SeenProcesses& processes) {
    std::map<pid_t, Belonging> known;
    for (const auto& [number, seen] : processes) {
        Belonging own = belonging_of(proc_text(number, "environ"));
        if (own.job.empty() && !processes.contains(seen.process.parent))
            own = child_of_slurmstepd(seen.process.parent);
        if (!own.job.empty()) known.emplace(number, std::move(own));
    }
    // A child may have a smaller number than its parent.
    for (bool changed = true; std::exchange(changed, false);) {
        for (const auto& [number, seen] : processes) {
            const auto parent = known.find(seen.process.parent);
            if (known.contains(number) || parent == known.end()) continue;
            known.emplace(number, parent->second);
            changed = true;
        }
    }
    return known;
}

// Returns whether the number is that of a step for ranks. Those of other steps are greater than any
// int. From 26.05 on, Slurm writes them as negative ones, and the batch script has one: -5.
bool is_of_srun(std::string_view step) {
    return base::number_in<int>(step).value_or(-1) >= 0;
}

bool waits_for_children(const SeenProcess& seen) {
    const visit::JobProcess& process = seen.process;
    // A Python that cannot say where it is may be a rank that runs another program.
    const std::string_view program =
        std::string_view(process.program).substr(0, process.program.find(' '));
    const bool is_python = program.substr(program.rfind('/') + 1).starts_with("python");
    if (!seen.has_children || process.threads != 1 || is_python) return false;
    const auto& kernel = process.kernel;
    return !kernel.empty() &&
           (kernel.front().where.starts_with("do_wait") || kernel.front().call.starts_with("wait"));
}

}  // namespace

SeenProcesses processes_of_job(const std::string& job_id, const std::string& own_step) {
    SeenProcesses found = processes_of_user();
    const auto known = belongings(found);
    // On a host with several nodes, the job may have processes on another one of them.
    const auto node = node_of_shared_host();
    const auto is_elsewhere = [&](const Belonging& own) {
        return node && !own.node.empty() && own.node != *node;
    };
    for (auto at = found.begin(); at != found.end();) {
        const auto belonging = known.find(at->first);
        visit::JobProcess& process = at->second.process;
        const bool is_of_job = belonging != known.end() && belonging->second.job == job_id &&
                               belonging->second.step != own_step &&
                               !is_elsewhere(belonging->second) &&
                               is_of_srun(belonging->second.step);
        if (is_of_job) process.program = program_of(at->first);
        if (!is_of_job || is_ours(process.program)) {
            at = found.erase(at);
            continue;
        }
        if (!belonging->second.launched) process.step = belonging->second.step;
        process.rank = belonging->second.rank;
        at->second.launched = belonging->second.launched;
        ++at;
    }
    for (auto& [number, seen] : found) {
        const auto parent = found.find(seen.process.parent);
        if (parent != found.end()) parent->second.has_children = true;
    }
    return found;
}

void leave_out_waiting_shells(SeenProcesses& processes) {
    for (auto at = processes.begin(); at != processes.end();) {
        if (!waits_for_children(at->second)) {
            ++at;
            continue;
        }
        for (auto& [number, other] : processes) {
            if (other.process.parent == at->first) other.process.parent = at->second.process.parent;
        }
        at = processes.erase(at);
    }
}

void mark_tasks(SeenProcesses& processes) {
    for (const auto& [number, seen] : processes) {
        if (!seen.launched) continue;
        for (auto above = processes.find(seen.process.parent);
             above != processes.end() && !above->second.launched;
             above = processes.find(above->second.process.parent))
            above->second.process.rank.reset();
    }
    for (auto& [number, seen] : processes) {
        const auto parent = processes.find(seen.process.parent);
        // What has lost its parent, such as a server that a rank has started, belongs to init.
        const bool is_first = parent == processes.end() ? seen.process.parent != 1
                                                        : seen.launched && !parent->second.launched;
        const bool is_other = seen.launched && parent != processes.end() &&
                              parent->second.process.rank != seen.process.rank;
        seen.process.is_task = seen.process.rank && (is_first || is_other);
    }
}

}  // namespace batchai::node
