// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "bootstrap/launch.hpp"
#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "gpu/device.hpp"
#include "trace/stall_settings.hpp"

namespace mpi_bridge {

// What the engine may be told by the environment. All ranks must have the same sizes; they compare
// them before they use them.
struct EngineSettings {
    // Buckets are closed before they would exceed this; a larger tensor is alone in its bucket. The
    // first bucket of a step is smaller, so that the network is busy early.
    std::size_t first_bucket_bytes = std::size_t{1} << 20;  // MPI_BRIDGE_FIRST_BUCKET_BYTES
    // MPI_BRIDGE_BUCKET_BYTES, or else HOROVOD_FUSION_THRESHOLD. 0: no tensor shares a bucket.
    std::size_t bucket_bytes = std::size_t{25} << 20;
    StallSettings stall;
    // Which way device memory goes: MPI_BRIDGE_GPU_PATH, "auto", "nccl", "staged" or "ucx".
    DevicePath device_path = DevicePath::automatic;
    // How long a rank that waits for something planned lets a tensor that the plan has before it
    // stay away, before it asks all ranks to leave the plan. Doubles each time that happens.
    Seconds plan_patience{0.005};
};

// An unusable value is MPIB_ERROR_INVALID_ARGUMENT and the text names variable, value and form.
[[nodiscard]] Outcome<EngineSettings> engine_settings(const Environment& environment);

}  // namespace mpi_bridge
