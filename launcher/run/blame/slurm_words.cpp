// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/blame/slurm_words.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>

#include <fmt/format.h>

#include "base/text.hpp"
#include "slurm/hostlist.hpp"

namespace batchai::run {

namespace {

using base::split;
using base::trim;
using record::EndedBy;

// What follows the time in messages of slurmstepd from 25.05 on.
constexpr std::string_view dated = "] error: ";

// Returns the task numbers in a list such as "3", "0-1" or "0,2-3".
std::vector<int> task_numbers(std::string_view text) {
    std::vector<int> tasks;
    for (const std::string_view range : split(text, ',')) {
        const auto ends = split(range, '-');
        const auto first = base::number_in<int>(ends.front());
        const auto last = base::number_in<int>(ends.back());
        if (!first || !last || *last - *first > 1000000) return {};
        for (int task = *first; task <= *last; ++task)
            tasks.push_back(task);
    }
    return tasks;
}

std::optional<int> signal_number(std::string_view name) {
    for (int candidate = 1; candidate < SIGRTMIN; ++candidate) {
        const char* text = strsignal(candidate);
        if (text != nullptr && name == text) return candidate;
    }
    if (name == "Out Of Memory") return SIGKILL;
    return std::nullopt;
}

// Reads the part of a message after "task 3: ".
void read_reason(std::string_view reason, TaskEnd& end) {
    constexpr std::string_view exited = "Exited with exit code ";
    constexpr std::string_view dumped = " (core dumped)";
    if (reason.ends_with(dumped)) reason.remove_suffix(dumped.size());
    if (reason.starts_with(exited)) {
        end.exit_code = base::number_in<int>(trim(reason.substr(exited.size())));
    } else {
        end.signal = signal_number(trim(reason));
    }
}

bool ended_by(int signal, const TaskEnd& end) {
    return end.signal ? *end.signal == signal : end.exit_code == 128 + signal;
}

bool killed(const TaskEnd& end) {
    return ended_by(SIGKILL, end) || ended_by(SIGTERM, end);
}

void read_line(std::string_view line, std::vector<TaskEnd>& ends) {
    constexpr std::string_view prefix = "srun: error: ";
    if (!line.starts_with(prefix)) return;
    line.remove_prefix(prefix.size());
    const std::size_t node_end = line.find(": ");
    if (node_end == std::string_view::npos) return;
    const std::string node(line.substr(0, node_end));
    line.remove_prefix(node_end + 2);
    if (!line.starts_with("task")) return;
    const std::size_t tasks_begin = line.find(' ');
    const std::size_t tasks_end = line.find(": ");
    if (tasks_begin == std::string_view::npos || tasks_end == std::string_view::npos ||
        tasks_end < tasks_begin)
        return;
    for (const int task : task_numbers(line.substr(tasks_begin + 1, tasks_end - tasks_begin - 1))) {
        TaskEnd end{node, task, {}, {}};
        read_reason(line.substr(tasks_end + 2), end);
        if (end.signal || end.exit_code) ends.push_back(std::move(end));
    }
}

}  // namespace

std::vector<TaskEnd> bad_ends(std::string_view srun_messages) {
    std::vector<TaskEnd> ends;
    bool cancelled = false;
    for (const std::string_view line : split(srun_messages, '\n')) {
        const bool ended_by_srun = line.find("Job step aborted") != std::string_view::npos ||
                                   line.find("Terminating StepId") != std::string_view::npos ||
                                   line.find("Terminating job step") != std::string_view::npos;
        // Of those that were terminated before, each may be the victim of a rank that comes later.
        if (ended_by_srun && std::any_of(ends.begin(), ends.end(), [](const TaskEnd& end) {
                return !end.victim && end.signal != SIGTERM;
            }))
            break;
        // If the notice comes before any bad end, a rank or somebody outside ended the whole step.
        cancelled = cancelled || ended_by_srun || line.find("CANCELLED AT") != line.npos;
        const std::size_t known = ends.size();
        read_line(line, ends);
        for (std::size_t i = known; i < ends.size(); ++i)
            ends[i].victim = cancelled && killed(ends[i]);
    }
    return ends;
}

std::vector<TaskEnd> bad_ends_of(std::string_view srun_messages, const std::set<int>& tasks) {
    std::vector<TaskEnd> ends;
    for (const std::string_view line : split(srun_messages, '\n'))
        read_line(line, ends);
    std::erase_if(ends, [&](const TaskEnd& end) { return !tasks.contains(end.task); });
    return ends;
}

std::vector<LaunchFailure> launch_failures(std::string_view srun_messages) {
    constexpr std::string_view of_task = "srun: error: task ";
    constexpr std::string_view failed = " launch failed: ";
    constexpr std::string_view of_node = "srun: error: Task launch for ";
    constexpr std::string_view failed_on = " failed on node ";
    constexpr std::string_view no_output = "Slurmd could not connect IO";
    std::vector<LaunchFailure> found;
    for (const std::string_view line : split(srun_messages, '\n')) {
        if (const std::size_t at = line.find(failed);
            line.starts_with(of_task) && at != line.npos) {
            const auto task =
                base::number_in<int>(line.substr(of_task.size(), at - of_task.size()));
            const std::string_view reason = trim(line.substr(at + failed.size()));
            if (task) found.push_back({*task, {}, std::string(reason), reason == no_output});
        } else if (const std::size_t on = line.find(failed_on);
                   line.starts_with(of_node) && on != line.npos) {
            const std::string_view rest = line.substr(on + failed_on.size());
            const std::size_t colon = rest.find(": ");
            if (colon == rest.npos) continue;
            const std::string_view reason = trim(rest.substr(colon + 2));
            found.push_back(
                {{}, std::string(rest.substr(0, colon)), std::string(reason), reason == no_output});
        }
    }
    return found;
}

bool pmix_has_lost_a_node(std::string_view srun_messages) {
    const auto lines = split(srun_messages, '\n');
    return std::any_of(lines.begin(), lines.end(), [](std::string_view line) {
        return line.starts_with("slurmstepd-") &&
               line.find(" mpi/pmix") != std::string_view::npos &&
               (line.ends_with(": Cannot establish the connection") ||
                line.ends_with(", exceeded the retry limit"));
    });
}

bool found_no_controller(std::string_view srun_messages) {
    const auto lines = split(srun_messages, '\n');
    return std::any_of(lines.begin(), lines.end(), [](std::string_view line) {
        return (line.starts_with("srun: error: Unable to confirm allocation for job ") ||
                line.starts_with("srun: error: Unable to create step for job ")) &&
               line.ends_with(": Unable to contact slurm controller (connect failure)");
    });
}

namespace {

constexpr std::string_view node_failure_on = "srun: error: Node failure on ";
constexpr std::string_view out_of_memory = ": Out Of Memory";

// The message is "slurmstepd: error: Detected 1 oom_kill event in StepId=5.0 …", which some
// versions write with a hyphen.
bool tells_of_oom_kill(std::string_view text) {
    return text.find("Detected 1 oom_kill") != text.npos ||
           text.find("Detected 1 oom-kill") != text.npos ||
           text.find(" oom_kill event") != text.npos || text.find(" oom-kill event") != text.npos;
}

// Returns the node that slurmstepd has in its name in some installations: "slurmstepd-h1: error:
// …".
std::string_view node_of_slurmstepd(std::string_view line) {
    constexpr std::string_view program = "slurmstepd-";
    if (!line.starts_with(program)) return {};
    line.remove_prefix(program.size());
    return line.substr(0, line.find(':'));
}

// A task that was killed, perhaps for the memory that it used.
struct KilledTask {
    std::size_t line;  // that tells of it
    std::string node;
    bool for_memory;  // srun says so
    bool is_named;    // among the tasks in question
};

std::vector<KilledTask> killed_tasks(const std::vector<std::string_view>& lines,
                                     const std::set<int>& named) {
    std::vector<KilledTask> found;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        std::vector<TaskEnd> ends;
        read_line(lines[i], ends);
        for (TaskEnd& end : ends) {
            if (ended_by(SIGKILL, end))
                found.push_back({.line = i,
                                 .node = std::move(end.node),
                                 .for_memory = lines[i].ends_with(out_of_memory),
                                 .is_named = named.contains(end.task)});
        }
    }
    return found;
}

// Returns whether slurmstepd's notice in the line at that index is about one of the named tasks. It
// names none itself. Mostly it comes before srun tells how the task has ended.
bool is_about_named(const std::vector<KilledTask>& tasks, std::size_t at, std::string_view node) {
    const auto may_be = [&](const KilledTask& task) { return node.empty() || task.node == node; };
    const bool srun_says_why = std::any_of(tasks.begin(), tasks.end(), [&](const KilledTask& task) {
        return may_be(task) && task.for_memory;
    });
    const KilledTask* last = nullptr;
    for (const KilledTask& task : tasks) {
        if (!may_be(task) || (srun_says_why && !task.for_memory)) continue;
        last = &task;
        if (task.line > at) break;
    }
    return last != nullptr && last->is_named;
}

}  // namespace

std::vector<std::string> failed_nodes(std::string_view srun_messages) {
    std::vector<std::string> found;
    for (const std::string_view line : split(srun_messages, '\n')) {
        if (!line.starts_with(node_failure_on)) continue;
        const auto nodes = slurm::expand_hostlist(trim(line.substr(node_failure_on.size())));
        if (nodes) found.insert(found.end(), nodes->begin(), nodes->end());
    }
    return found;
}

std::string without_ends(std::string_view srun_messages, const std::set<int>& tasks,
                         const std::set<std::string>& nodes) {
    const std::vector<std::string_view> lines = split(srun_messages, '\n');
    const std::vector<KilledTask> all_killed = killed_tasks(lines, tasks);
    const auto is_of_them = [&](std::size_t at) {
        const std::string_view line = lines[at];
        if (tells_of_oom_kill(line))
            return is_about_named(all_killed, at, node_of_slurmstepd(line));
        std::vector<TaskEnd> ends;
        read_line(line, ends);
        const std::vector<std::string> failed = failed_nodes(line);
        return (!ends.empty() || !failed.empty()) &&
               std::all_of(ends.begin(), ends.end(),
                           [&](const TaskEnd& end) { return tasks.contains(end.task); }) &&
               std::all_of(failed.begin(), failed.end(),
                           [&](const std::string& node) { return nodes.contains(node); });
    };
    std::string kept;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        if (is_of_them(i)) continue;
        // Nothing follows the last newline.
        if (!kept.empty()) kept += '\n';
        kept += lines[i];
    }
    return kept;
}

std::optional<EndedBy> end_of_step(std::string_view srun_messages) {
    const auto has = [&](std::string_view words) {
        return srun_messages.find(words) != std::string_view::npos;
    };
    if (has(std::string(out_of_memory) + '\n') || tells_of_oom_kill(srun_messages))
        return EndedBy::memory;
    // The second is srun's word for a node that has started again, and does not know the step.
    if (has(node_failure_on) || has("missing step on node ")) return EndedBy::node;
    return std::nullopt;
}

std::optional<MemoryNotice> memory_notice(std::string_view standard_error,
                                          std::string_view job_id) {
    // The message is "slurmstepd-h2: error: StepId=13.1 exceeded memory limit (2 > 1), being
    // killed", or the same of "virtual memory". Not every version has the node in its name, and
    // from 25.05 on the message begins "[2026-11-22T07:11:05.123] error: StepId=13.1". The program
    // may have left a line unfinished before it, as progress bars do.
    constexpr std::string_view program = "slurmstepd";
    const std::string step = fmt::format(" StepId={}.", job_id);
    for (const std::string_view line : split(standard_error, '\n')) {
        std::size_t at = line.find(" exceeded memory limit (");
        if (at == std::string_view::npos) at = line.find(" exceeded virtual memory limit (");
        if (at == std::string_view::npos) continue;
        std::size_t begin = line.rfind(program, at);
        if (const std::size_t time_end = line.rfind(dated, at);
            begin == std::string_view::npos && time_end != std::string_view::npos)
            begin = line.rfind('[', time_end);
        if (begin == std::string_view::npos) continue;
        const std::string_view notice = line.substr(begin);
        if (notice.substr(0, at - begin).find(step) == std::string_view::npos) continue;
        std::string_view node;
        if (notice.starts_with(program))
            node = notice.substr(program.size(), notice.find(':') - program.size());
        if (node.starts_with('-')) node.remove_prefix(1);
        return MemoryNotice{.node = std::string(node), .line = std::string(notice)};
    }
    return std::nullopt;
}

std::optional<EndedBy> end_of_job(std::string_view standard_error, std::string_view job_id) {
    // A notice looks like this:
    // "slurmstepd: error: *** JOB 14 ON h1 CANCELLED AT 2026-11-22T07:11:05 DUE TO PREEMPTION ***"
    // From 25.05 on it begins "[2026-11-22T07:11:05.123] error: *** JOB 14".
    const std::string job = "*** JOB " + std::string(job_id) + " ON ";
    std::optional<EndedBy> last;
    for (const std::string_view line : split(standard_error, '\n')) {
        const std::size_t at = line.find(job);
        if (at == std::string_view::npos) continue;
        const std::string_view before = line.substr(0, at);
        const bool with_time = before.starts_with('[') && before.ends_with(dated) &&
                               before.find(']') == at - dated.size();
        if (!with_time && !before.starts_with("slurmstepd")) continue;
        const std::string_view rest = line.substr(at + job.size());
        if (rest.find(" CANCELLED AT ") == std::string_view::npos) continue;
        const auto says = [&](std::string_view words) {
            return rest.find(words) != std::string_view::npos;
        };
        if (says(" DUE TO TIME LIMIT "))
            last = EndedBy::time_limit;
        else if (says(" DUE TO PREEMPTION "))
            last = EndedBy::preemption;
        else if (says(" DUE TO NODE FAILURE"))
            last = EndedBy::node;
        else if (says(" DUE TO JOB REQUEUE "))
            last = EndedBy::requeue;
        else if (!says(" DUE TO "))
            last = EndedBy::user;
    }
    return last;
}

}  // namespace batchai::run
