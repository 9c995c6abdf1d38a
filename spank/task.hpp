// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "spank/slurm.hpp"

// task_init: runs in the process that becomes the user's task, as the user.
namespace batchai::spank {

// Joins the sandbox and sets the environment. If the step asked for a sandbox that is not there,
// the process ends with a message to the user. An error code would not do: with an `optional` line
// in plugstack.conf, the task would then run on the bare host.
void join_sandbox(spank_t handle);

// Returns how many devices the step has: the number in `gpus_on_node` (SLURM_GPUS_ON_NODE), else
// the number of entries in the comma-separated `device_list`.
[[nodiscard]] int count_devices(const std::string& gpus_on_node, const std::string& device_list);

}  // namespace batchai::spank
