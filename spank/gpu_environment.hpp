// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

#include "spank/slurm.hpp"

// task_init: what a task's environment says of GPUs.
namespace batchai::spank {

// Returns how many devices the step has on this node: the number in `gpus_on_node`
// (SLURM_GPUS_ON_NODE), else the number of entries in the comma-separated `device_list`.
[[nodiscard]] int count_devices(const std::string& gpus_on_node, const std::string& device_list);

// Returns how many GPUs the task's step has on this node. Slurm tells this only in task_init.
[[nodiscard]] int gpus_of_step(spank_t handle);

// Returns whether the task sees exactly one GPU, of those that its step has on this node.
[[nodiscard]] bool sees_one_gpu(spank_t handle);

// Returns the value for NCCL_SOCKET_IFNAME, such as "=eth0", where "=" stops NCCL from also taking
// eth01. It is empty if the step has no GPUs on this node, if batchai-node has named no interface,
// or if one of NCCL's own files, which a variable would override, sets it. Call this once the task
// is in its sandbox: the files are those of the job's container.
[[nodiscard]] std::string nccl_interface(spank_t handle);

// Returns whether the text of a file in NCCL's format ("NAME=value" lines) sets the variable.
[[nodiscard]] bool sets_variable(std::string_view text, std::string_view name);

}  // namespace batchai::spank
