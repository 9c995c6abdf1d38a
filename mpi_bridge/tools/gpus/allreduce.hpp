// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/failure.hpp"
#include "gpu/nccl_library.hpp"
#include "tools/gpus/gpu.hpp"

namespace mpi_bridge::gpus {

// Reduces 16 MiB over NCCL among these GPUs, of which there must be at least two, some times, and
// compares the sums. Returns the speed in bytes per second: what each GPU must at least receive,
// divided by the time (the bus bandwidth of nccl-tests). A failure names a GPU.
//
// Comes after compare_with_host(). A call of NCCL or of the driver that hangs, hangs this function.
[[nodiscard]] Outcome<double> allreduce_over_nccl(const nccl::Library& nccl,
                                                  const std::vector<Gpu>& gpus);

}  // namespace mpi_bridge::gpus
