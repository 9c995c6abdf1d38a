// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include <sys/types.h>

#include "base/file.hpp"
#include "mpi_bridge/core/process_stat.hpp"

// The processes of a step on this node, as /proc shows them to the user.
namespace batchai::node {

// Returns the value of a "key: value" line in a text such as /proc/<pid>/status; empty if there is
// none.
[[nodiscard]] std::string_view value_of_line(std::string_view text, std::string_view key);

// Returns the value of a "key: number" line in a text such as /proc/<pid>/io; 0 if there is none.
[[nodiscard]] std::int64_t number_of_line(std::string_view text, std::string_view key);

// Returns a variable of an environment as the kernel shows it, whose entries end with zero bytes.
[[nodiscard]] std::optional<std::string_view> variable_in(std::string_view environment,
                                                          std::string_view name);

// Returns this user's processes. `proc` is an open /proc.
[[nodiscard]] std::map<pid_t, mpi_bridge::ProcessStat> own_processes(int proc);

// The step whose processes are looked for. The tasks are children of slurmstepd.
struct StepName {
    std::string job_id;
    std::string step_id;
    std::string node{};  // if its host has others, which may have tasks of the step, too
    pid_t slurmstepd = 0;
    pid_t anchor = 0;  // a child of slurmstepd that is not a task
};

struct RankProcesses {
    double cpu_seconds = 0;
    std::int64_t memory = 0;  // bytes
    std::int64_t peak = 0;    // the most memory until now
    int threads = 0;
    std::int64_t read = 0;  // bytes
    std::int64_t written = 0;
    std::int64_t copied = 0;  // bytes that calls such as read() and write() have copied
};

// Adds up what the processes of each rank use. A process belongs to the rank of its parent. The
// environment tells to which rank it belongs if that is not known, as of a process whose parent has
// ended.
class StepProcesses {
  public:
    // `proc` is an open /proc. It still shows the tasks when this process, or they, have moved to
    // other namespaces.
    StepProcesses(base::FileDescriptor proc, StepName step);

    void look();
    [[nodiscard]] const std::map<int, RankProcesses>& ranks() const { return ranks_; }
    // The processes of each rank that were there at the last look.
    [[nodiscard]] std::multimap<int, pid_t> processes_of_ranks() const;
    // The environment of the first task that was found, and its process; empty before that.
    [[nodiscard]] const std::string& environment() const { return environment_; }
    [[nodiscard]] pid_t first_task() const { return first_task_; }
    // Returns the CPU time of all tasks that have ended, as far as slurmstepd has waited for them.
    [[nodiscard]] double cpu_seconds_of_ended_tasks() const;
    // Returns the text of a file of /proc; empty if it cannot be read.
    [[nodiscard]] std::string text_of(const std::string& path) const;

  private:
    struct Known {
        std::uint64_t start = 0;
        std::optional<int> rank;  // none: it is not a process of the step
        pid_t parent = 0;
        std::uint64_t ticks = 0;
        std::int64_t read = 0;
        std::int64_t written = 0;
        std::int64_t copied = 0;
        bool seen = false;
    };
    // What ended processes have used, for which no process of the step has waited.
    struct Ended {
        std::uint64_t ticks = 0;
        std::int64_t read = 0;
        std::int64_t written = 0;
        std::int64_t copied = 0;
    };
    using Listed = std::map<pid_t, mpi_bridge::ProcessStat>;

    void find_ranks(const Listed& listed);
    [[nodiscard]] std::optional<int> rank_by_environment(pid_t process);
    void forget_ended();
    void add_up(const Listed& listed);

    base::FileDescriptor proc_;
    StepName step_;
    std::unordered_map<pid_t, Known> known_;
    std::map<int, Ended> ended_;
    std::map<int, RankProcesses> ranks_;
    std::string environment_;
    pid_t first_task_ = 0;
};

}  // namespace batchai::node
