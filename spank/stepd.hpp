// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

#include "spank/child.hpp"
#include "spank/options.hpp"

// The node side inside slurmstepd: starts batchai-node for the step, and ends it.
namespace batchai::spank {

// What user_init leaves for task_init and task_exit. The tasks get a copy by fork().
struct Sandbox {
    bool wanted = false;  // the job's environment asks for one
    std::string failure;  // why there is none, if batchai-node could not say so itself
    std::string digest;   // of the plan
    // The job whose plan was in this job's environment, if it was not its own.
    std::string foreign_job;
    JobGroup group;  // in which the anchor runs
    Child anchor;
    int control = -1;
    int ready = -1;  // readable, or at its end, once the reply is complete
    int reply = -1;
    int timeout_seconds = 0;  // for `ready`
    unsigned int tasks_left = 0;
};

[[nodiscard]] Sandbox& sandbox();

// Returns true for the steps that get a sandbox: all but the batch script and the extern step.
[[nodiscard]] bool step_is_ours(spank_t handle);

// Returns a variable of the job's environment. It is empty if not set or longer than `limit`.
[[nodiscard]] std::string job_variable(spank_t handle, const char* name, std::size_t limit);
// Returns where the tasks start, in slurmstepd or a task that is in the directory where Slurm
// starts it; empty if that is not known.
[[nodiscard]] std::string start_directory(spank_t handle);

// init_post_opt, as root: settles whose plan is in the environment (this_job.hpp), and notes in
// root's own directory that this job may leave something on the node. The epilog of a job without
// such a note has nothing to do. The batch script counts as well: `batchai run` may make the
// directory of the logs before the first step starts.
void remember_job(spank_t handle, const Settings& settings);

// user_init: never fails, because a failure here would drain the node; the failure is kept for
// task_init. It does not wait for anything either: slurmstepd has the user's effective id while
// user_init runs, and its PMIx server refuses the connections of other nodes during that time
// ("Munge decode failed: Unauthorized credential", seen with 22.05.8), after which a fence hangs.
void start_sandbox(spank_t handle, const Settings& settings);

// task_init: writes one of the remarks BATCHAI_CONTROL_… to batchai-node.
void tell_node_program(std::string_view remark);

// task_exit: the last task of this node ends the sandbox. exit: ends it in any case, and leaves its
// group. Both return within seconds, whatever the user's processes do; those finish longer work by
// themselves.
void task_ended();
void leave_step();

}  // namespace batchai::spank
