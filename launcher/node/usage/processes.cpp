// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/usage/processes.hpp"

#include <algorithm>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.hpp"
#include "base/text.hpp"

namespace batchai::node {

namespace {

// A user's environment may be longer, but what Slurm sets is asked for only once for a process.
constexpr std::size_t longest_text = 4UL << 20U;

const double seconds_of_tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));

double in_seconds(std::uint64_t ticks) {
    return static_cast<double>(ticks) * seconds_of_tick;
}

// The text of a file of /proc; empty if it cannot be read.
std::string text_in(int proc, const std::string& path) {
    const base::FileDescriptor file(openat(proc, path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    std::string text;
    std::size_t size = 0;
    while (file.valid() && size < longest_text) {
        // Nearly all of these files are shorter than a page.
        text.resize(std::max<std::size_t>(4096, 2 * size));
        const ssize_t count = read(file.get(), text.data() + size, text.size() - size);
        if (count <= 0) break;
        size += static_cast<std::size_t>(count);
    }
    text.resize(size);
    return text;
}

}  // namespace

std::string_view value_of_line(std::string_view text, std::string_view key) {
    for (const std::string_view line : base::split(text, '\n')) {
        if (line.starts_with(key) && line.substr(key.size()).starts_with(':'))
            return base::trim(line.substr(key.size() + 1));
    }
    return {};
}

std::int64_t number_of_line(std::string_view text, std::string_view key) {
    std::string_view value = value_of_line(text, key);
    value = value.substr(0, value.find(' '));  // before a unit
    return std::max<std::int64_t>(base::number_in<std::int64_t>(value).value_or(0), 0);
}

std::optional<std::string_view> variable_in(std::string_view environment, std::string_view name) {
    for (const std::string_view entry : base::split(environment, '\0')) {
        if (entry.starts_with(name) && entry.substr(name.size()).starts_with('='))
            return entry.substr(name.size() + 1);
    }
    return std::nullopt;
}

std::map<pid_t, mpi_bridge::ProcessStat> own_processes(int proc) {
    std::map<pid_t, mpi_bridge::ProcessStat> listed;
    const uid_t user = getuid();
    for (const std::string& name : base::names_in(proc)) {
        const auto process = base::number_in<pid_t>(name);
        if (!process) continue;
        // A host may have thousands of processes of others, for which nothing more is read.
        struct stat status {};
        if (fstatat(proc, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 || status.st_uid != user)
            continue;
        if (const auto stat = mpi_bridge::parse_process_stat(text_in(proc, name + "/stat")))
            listed.emplace(*process, *stat);
    }
    return listed;
}

StepProcesses::StepProcesses(base::FileDescriptor proc, StepName step)
    : proc_(std::move(proc)), step_(std::move(step)) {}

std::string StepProcesses::text_of(const std::string& path) const {
    return text_in(proc_.get(), path);
}

std::optional<int> StepProcesses::rank_by_environment(pid_t process) {
    const std::string environment = text_of(std::to_string(process) + "/environ");
    const auto is = [&](std::string_view name, const std::string& value) {
        const auto found = variable_in(environment, name);
        return found && *found == value;
    };
    if (!is("SLURM_JOB_ID", step_.job_id) || !is("SLURM_STEP_ID", step_.step_id) ||
        (!step_.node.empty() && !is("SLURMD_NODENAME", step_.node)))
        return std::nullopt;
    const auto number =
        base::number_in<int>(variable_in(environment, "SLURM_PROCID").value_or(std::string_view()));
    if (!number || *number < 0) return std::nullopt;
    if (environment_.empty()) {
        environment_ = environment;
        first_task_ = process;
    }
    return number;
}

void StepProcesses::find_ranks(const Listed& listed) {
    // A child may have a smaller number than its parent, so parents are looked for until nothing
    // changes.
    bool changed = true;
    std::map<pid_t, mpi_bridge::ProcessStat> left;
    for (const auto& [process, stat] : listed) {
        Known& known = known_[process];
        if (known.start != stat.start) {
            known = Known{.start = stat.start};
            left.emplace(process, stat);
        } else if (!known.rank && stat.parent == step_.slurmstepd) {
            // It may be a task that had not started its program.
            left.emplace(process, stat);
        }
        known.parent = stat.parent;
        known.seen = true;
    }
    left.erase(step_.anchor);
    for (auto& [process, stat] : left) {
        if (stat.parent == step_.slurmstepd) known_[process].rank = rank_by_environment(process);
    }
    while (std::exchange(changed, false)) {
        for (auto& [process, stat] : left) {
            Known& known = known_[process];
            const auto parent = known_.find(stat.parent);
            if (known.rank || parent == known_.end() || !parent->second.rank) continue;
            known.rank = parent->second.rank;
            changed = true;
        }
    }
    for (auto& [process, stat] : left) {
        Known& known = known_[process];
        if (!known.rank && stat.parent != step_.slurmstepd)
            known.rank = rank_by_environment(process);
    }
}

// What an ended process has used is now a part of what its parent has used, if that is a process of
// the step and has waited for it.
void StepProcesses::forget_ended() {
    for (auto at = known_.begin(); at != known_.end();) {
        const Known& known = at->second;
        if (known.seen) {
            ++at;
            continue;
        }
        const auto parent = known_.find(known.parent);
        const bool inherited = parent != known_.end() && parent->second.seen && parent->second.rank;
        if (known.rank && !inherited) {
            Ended& ended = ended_[*known.rank];
            ended.ticks += known.ticks;
            ended.read += known.read;
            ended.written += known.written;
            ended.copied += known.copied;
        }
        at = known_.erase(at);
    }
}

void StepProcesses::add_up(const Listed& listed) {
    std::map<int, RankProcesses> now;
    std::map<int, std::uint64_t> ticks;
    for (const auto& [rank, ended] : ended_) {
        ticks[rank] = ended.ticks;
        now[rank].read = ended.read;
        now[rank].written = ended.written;
        now[rank].copied = ended.copied;
    }
    for (const auto& [process, stat] : listed) {
        Known& known = known_[process];
        if (!known.rank) continue;
        const std::string directory = std::to_string(process);
        const std::string io = text_of(directory + "/io");
        known.ticks = stat.ticks;
        known.read = number_of_line(io, "read_bytes");
        known.written = number_of_line(io, "write_bytes");
        known.copied = number_of_line(io, "rchar") + number_of_line(io, "wchar");
        RankProcesses& rank = now[*known.rank];
        ticks[*known.rank] += stat.ticks;
        rank.memory += stat.pages * sysconf(_SC_PAGESIZE);
        rank.threads += stat.threads;
        rank.read += known.read;
        rank.written += known.written;
        rank.copied += known.copied;
        // What the process once had, perhaps between two looks.
        rank.peak =
            std::max(rank.peak, 1024 * number_of_line(text_of(directory + "/status"), "VmHWM"));
    }
    for (const auto& [rank, use] : now) {
        RankProcesses& total = ranks_[rank];
        // Nothing that was used becomes less, whatever the kernel has lost of ended processes.
        total.cpu_seconds = std::max(total.cpu_seconds, in_seconds(ticks[rank]));
        total.read = std::max(total.read, use.read);
        total.written = std::max(total.written, use.written);
        total.copied = std::max(total.copied, use.copied);
        total.memory = use.memory;
        total.threads = use.threads;
        total.peak = std::max({total.peak, use.peak, use.memory});
    }
    for (auto& [rank, total] : ranks_) {
        if (now.contains(rank)) continue;
        total.memory = 0;
        total.threads = 0;
    }
}

void StepProcesses::look() {
    for (auto& [process, known] : known_)
        known.seen = false;
    const Listed listed = own_processes(proc_.get());
    find_ranks(listed);
    forget_ended();
    add_up(listed);
}

std::multimap<int, pid_t> StepProcesses::processes_of_ranks() const {
    std::multimap<int, pid_t> out;
    for (const auto& [process, known] : known_) {
        if (known.rank) out.emplace(*known.rank, process);
    }
    return out;
}

double StepProcesses::cpu_seconds_of_ended_tasks() const {
    const auto stat =
        mpi_bridge::parse_process_stat(text_of(std::to_string(step_.slurmstepd) + "/stat"));
    return stat ? in_seconds(stat->ticks_of_children) : 0;
}

}  // namespace batchai::node
