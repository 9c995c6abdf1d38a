// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "spank/slurm.hpp"

// task_init: runs in the process that becomes the user's task, as the user.
namespace batchai::spank {

// Joins the sandbox and sets the environment. If the step asked for a sandbox that is not there,
// the process ends with a message to the user. An error code would not do: with an `optional` line
// in plugstack.conf, the task would then run on the bare host.
void join_sandbox(spank_t handle);

}  // namespace batchai::spank
