// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "record/ended_by.hpp"

// Reads the English messages that Slurm's programs write to a standard error. While the job still
// runs, nothing else tells how a step ended. No other file interprets them. All functions are
// pure.
namespace batchai::run {

struct TaskEnd {
    std::string node;
    int task = 0;
    std::optional<int> signal;
    std::optional<int> exit_code;
    // Killed after the whole step was cancelled, by one of its ranks (PMIx_Abort) or from outside.
    bool victim = false;

    bool operator==(const TaskEnd&) const = default;
};

// Returns the bad ends that srun reported, in the order of its lines (Slurm 22.05: "srun: error:
// n2: task 3: Exited with exit code 7", "… tasks 0-1: Killed"). The list stops where srun ended the
// step on its own account, because a task that ends after that is a victim and not a cause. If the
// step was cancelled before any bad end, the tasks that were killed by it are marked as victims. So
// are those after tasks that were only terminated: when a rank aborts the step through PMI-2, Slurm
// 26.05 terminates the others, which may be told before that rank's own end.
[[nodiscard]] std::vector<TaskEnd> bad_ends(std::string_view srun_messages);

// Returns how these tasks have ended badly, whoever ended them.
[[nodiscard]] std::vector<TaskEnd> bad_ends_of(std::string_view srun_messages,
                                               const std::set<int>& tasks);

// Returns the messages without the lines that say how these tasks have ended, or that these nodes
// have failed. A notice that tasks were killed for their memory goes with the task that it is
// about.
[[nodiscard]] std::string without_ends(std::string_view srun_messages, const std::set<int>& tasks,
                                       const std::set<std::string>& nodes);

// Says that slurmstepd did not start tasks of a step. srun itself ends with 0 if no task of its
// step ends badly, even if none has started.
struct LaunchFailure {
    std::optional<int> task;  // none: all tasks of `node`
    std::string node;         // empty: unknown
    std::string reason;       // in Slurm's words
    // slurmstepd could not open a file of the task's output, or not connect to srun.
    bool of_output = false;

    bool operator==(const LaunchFailure&) const = default;
};

// Returns the launches that failed, in the order of srun's lines ("srun: error: task 3 launch
// failed: Slurmd could not connect IO", "srun: error: Task launch for StepId=5.0 failed on node n2:
// …").
[[nodiscard]] std::vector<LaunchFailure> launch_failures(std::string_view srun_messages);

// Whether srun ended because slurmctld could not be reached, before there was a step ("srun: error:
// Unable to confirm allocation for job 6: Unable to contact slurm controller (connect failure)").
[[nodiscard]] bool found_no_controller(std::string_view srun_messages);

// Whether a PMIx server of Slurm's could not reach the one of another node, or gave up its messages
// to it ("slurmstepd-n2: error:  mpi/pmix_v4: _tcp_connect: n2 [1]: pmixp_dconn_tcp.c:141: Cannot
// establish the connection", "… send failed, rc=1001, exceeded the retry limit"). Slurm then kills
// the step's tasks on its node.
[[nodiscard]] bool pmix_has_lost_a_node(std::string_view srun_messages);

// Returns what ended a step besides its own tasks, if srun said so: lack of memory or a lost node.
[[nodiscard]] std::optional<record::EndedBy> end_of_step(std::string_view srun_messages);

// Returns the nodes that srun said had failed ("srun: error: Node failure on n[2-3]").
[[nodiscard]] std::vector<std::string> failed_nodes(std::string_view srun_messages);

// slurmstepd's message that it ends a step for its memory.
struct MemoryNotice {
    std::string node;  // empty if the message does not name it
    std::string line;

    bool operator==(const MemoryNotice&) const = default;
};

// Returns the first such message about a step of the job on the standard error of a task. If Slurm
// limits memory without cgroups (JobAcctGatherParams=OverMemoryKill), slurmstepd writes it there,
// and srun says only that tasks were killed.
[[nodiscard]] std::optional<MemoryNotice> memory_notice(std::string_view standard_error,
                                                        std::string_view job_id);

// Returns what ended the job, if slurmstepd said so on the batch script's standard error. The last
// such notice counts. A cancellation for which no reason is given counts as the user's.
[[nodiscard]] std::optional<record::EndedBy> end_of_job(std::string_view standard_error,
                                                        std::string_view job_id);

}  // namespace batchai::run
