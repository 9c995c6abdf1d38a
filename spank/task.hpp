// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "spank/slurm.hpp"

// task_init: in the process that becomes the user's task, as the user.
namespace batchai::spank {

// Joins the sandbox and sets the environment. The process ends, with a message to the user, when
// the step asked for a sandbox that is not there: an `optional` line in plugstack.conf would turn
// an error code into a task that runs on the bare host.
void join_sandbox(spank_t handle);

// How many devices a variable of Slurm's names: a number for SLURM_GPUS_ON_NODE, else the entries
// of a comma-separated list.
[[nodiscard]] int count_devices(const std::string& gpus_on_node, const std::string& device_list);

}  // namespace batchai::spank
