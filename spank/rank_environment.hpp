// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "spank/slurm.hpp"

namespace batchai::spank {

// task_init: gives a task the variables by which frameworks find the other ranks: those that
// torch.distributed reads and torchrun sets (RANK, MASTER_ADDR, GROUP_RANK, …),
// JAX_COORDINATOR_ADDRESS, those of Batch AI (AZ_BATCHAI_TASK_INDEX and
// AZ_BATCHAI_PYTORCH_INIT_METHOD), JAX_LOCAL_DEVICE_IDS if the task sees one GPU, and
// NCCL_SOCKET_IFNAME if it has GPUs. Leaves alone what the job file or the user's own environment
// sets. Replaces what this plugin has set for an enclosing step. Otherwise, if a rank starts an
// srun, all tasks of that srun would inherit the variables of that rank. Returns null, or the name
// of a variable that Slurm refused to set.
[[nodiscard]] const char* set_rank_environment(spank_t handle);

}  // namespace batchai::spank
