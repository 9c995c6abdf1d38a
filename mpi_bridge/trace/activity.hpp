// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mpi_bridge_engine.h"

namespace mpi_bridge {

// The phases that a tensor goes through, under the names of Horovod's timeline, which users know.
// <OP> stands for the kind of operation: ALLREDUCE, ALLGATHER, ...
enum class Phase : std::uint8_t {
    negotiate,                   // NEGOTIATE_<OP>: submitted here, not known to be on all ranks
    operation,                   // <OP>: from there to its end; holds all that follow
    queue,                       // QUEUE: waits for its turn
    wait_for_data,               // WAIT_FOR_DATA: until the device has made the data
    wait_for_other_tensor_data,  // WAIT_FOR_OTHER_TENSOR_DATA: until its bucket is full
    memcpy_in_fusion_buffer,     // MEMCPY_IN_FUSION_BUFFER
    memcpy_out_fusion_buffer,    // MEMCPY_OUT_FUSION_BUFFER
    copy_to_host,                // COPY_TO_HOST: device memory, where NCCL cannot serve
    copy_to_device,              // COPY_TO_DEVICE
    shm,                         // SHM_<OP>: through the node's shared memory
    ucx,                         // UCX_<OP>: through the network
    shm_ucx,                     // SHM_UCX_<OP>: hierarchical, both
    nccl,                        // NCCL_<OP>
    init_nccl,                   // INIT_NCCL
    control_round,               // CONTROL_ROUND: the ranks agree; on the engine's row
    verify_plan,                 // VERIFY_PLAN: the ranks compare a plan's hash; on that row too
};

// The place and the name of a bar in the timeline: the row is given by the tensor and its process
// set.
struct Activity {
    // May hold any bytes. Empty means the engine's own row.
    std::string_view tensor;
    Phase phase = Phase::operation;
    mpib_kind kind = MPIB_ALLREDUCE;
    // The same name in two process sets has two rows.
    int process_set = MPIB_WORLD;
};

// What is shown of an activity besides its name and time; negative values are left out.
struct Details {
    std::int64_t bytes = -1;
    int datatype = -1;         // mpib_datatype
    std::int64_t bucket = -1;  // the same number for tensors that share one
    std::int64_t epoch = -1;   // of the plan
};

// Returns "allreduce" and so on, or "operation" for a kind out of range.
[[nodiscard]] std::string_view kind_name(mpib_kind kind);

// Returns "NEGOTIATE_ALLREDUCE", "QUEUE" and so on.
[[nodiscard]] std::string activity_name(Phase phase, mpib_kind kind);

}  // namespace mpi_bridge
