// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "core/failure.hpp"
#include "gpu/nccl/library.hpp"
#include "tools/gpus/gpu.hpp"

namespace mpi_bridge::gpus {

// What to tell while an allreduce is under way.
struct AllreduceNews {
    // What begins now, in words.
    std::function<void(std::string_view stage)> stage;
    // What allreduce_over_nccl() will return. Giving back memory and connections comes after this,
    // and may hang on a broken host, so a program that ends anyway ends here.
    std::function<void(const Outcome<double>&)> outcome;
};

// Reduces 32 MiB over NCCL some times among these GPUs, of which there must be at least two, and
// compares the sums. Returns the speed in bytes per second, as nccl-tests defines its bus
// bandwidth: 2 (n - 1) / n times the bytes, divided by the time. A failure says which call failed
// on which GPU, or which GPUs have wrong sums.
//
// Comes after compare_with_host(). A call of NCCL or of the driver that never returns holds this
// function.
[[nodiscard]] Outcome<double> allreduce_over_nccl(const nccl::Library& nccl,
                                                  const std::vector<Gpu>& gpus,
                                                  const AllreduceNews& news);

}  // namespace mpi_bridge::gpus
