// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "core/deadline.hpp"
#include "core/environment.hpp"
#include "core/failure.hpp"
#include "gpu/device_group.hpp"
#include "trace/stall_settings.hpp"

namespace mpi_bridge {

// The settings of the engine that the environment can change. All ranks must have the same sizes;
// they compare them before they use them.
struct EngineSettings {
    // A bucket is closed before it would exceed its limit; a larger tensor is alone in its bucket.
    // The first bucket of a step is smaller, so that the network is busy early.
    std::size_t first_bucket_bytes = std::size_t{1} << 20;  // MPI_BRIDGE_FIRST_BUCKET_BYTES
    // MPI_BRIDGE_BUCKET_BYTES, or else HOROVOD_FUSION_THRESHOLD. 0: no tensor shares a bucket.
    std::size_t bucket_bytes = std::size_t{25} << 20;
    StallSettings stall;
    // How device memory travels. MPI_BRIDGE_GPU_PATH: "auto", "nccl", "staged", "host" or "ucx".
    DevicePath device_path = DevicePath::automatic;
    // How long a rank that waits for a planned operation tolerates that it has not itself submitted
    // an earlier tensor of the plan, before it asks all ranks to leave the plan. Doubles each time
    // a rank has asked.
    Seconds plan_patience{0.005};
};

// An unusable value is MPIB_ERROR_INVALID_ARGUMENT; the text names the variable, the value and the
// expected form.
[[nodiscard]] Outcome<EngineSettings> engine_settings(const Environment& environment);

}  // namespace mpi_bridge
