// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "spank/options.hpp"
#include "spank/slurm.hpp"

// What two of the hooks do. stepd.hpp and submit_side.hpp have what the others do.
namespace batchai::spank {

// task_init: runs in the process that becomes the user's task, as the user. Joins the sandbox and
// sets the environment. If the step asked for a sandbox that is not there, the process ends with a
// message to the user. An error code would not do: with an `optional` line in plugstack.conf, the
// task would then run on the bare host.
void join_sandbox(spank_t handle);

// job_epilog: if the job is noted on this node (see job_note.hpp), removes what it has left there,
// as the job's user. Waits a few seconds at most; batchai-node finishes longer work by itself. If
// it fails in that time, slurmd's log says so. Any other job costs one system call. Returns nothing
// to Slurm, because a failing epilog would drain the node.
void clean_after_job(spank_t handle, const Settings& settings);

}  // namespace batchai::spank
