// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "core/failure.hpp"
#include "tools/gpus/gpu.hpp"

namespace mpi_bridge::gpus {

// How fast the GPUs of a host copy, in bytes per second.
struct Speeds {
    double usual = 0;  // the median of the GPUs; 0: nothing was measured
    // Which GPU copies at less than half of that speed, in words; empty: none.
    std::string slow;
};

// Opens the GPUs, and copies from the host to each of them and back. They take turns, because they
// share the way to the host's memory. A failure names the GPU.
[[nodiscard]] Outcome<Speeds> compare_with_host(std::vector<Gpu>& gpus);

// Copies between each two GPUs of which one can reach the other's memory, in both directions, until
// the time is up; neighbours come first. The speed of a GPU is that of its fastest copy to or from
// another one. `begins` is told the names of the two before anything is done with them. A failure
// names the two. Comes after compare_with_host().
[[nodiscard]] Outcome<Speeds> compare_with_each_other(
    std::vector<Gpu>& gpus, std::chrono::milliseconds time,
    const std::function<void(const std::string& pair)>& begins);

// Returns the median; of an even number of speeds the higher one of the two in the middle, so that
// one of two GPUs can be slow. `speeds` must not be empty.
[[nodiscard]] double median(std::vector<double> speeds);

}  // namespace mpi_bridge::gpus
