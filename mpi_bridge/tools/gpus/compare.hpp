// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/failure.hpp"
#include "tools/gpus/gpu.hpp"

namespace mpi_bridge::gpus {

// How fast the GPUs of a host copy. Speeds are in bytes per second, and 0 if nothing was measured.
struct Speeds {
    double host = 0;   // the median of copies from the host and back
    double peers = 0;  // the median of the fastest direct copies of each GPU to or from another
    // Which GPU copies at less than half of the speed of the others, in words; empty: none.
    std::string slow;
};

// Opens the GPUs, copies between the host and each of them, and, unless `direct` is false, between
// each two that can reach each other's memory. They take turns, because they share the way. A
// failure names the GPU, or the two.
[[nodiscard]] Outcome<Speeds> compare(std::vector<Gpu>& gpus, bool direct);

// Returns the median; of an even number of speeds the higher one of the two in the middle, so that
// one of two GPUs can be slow. `speeds` must not be empty.
[[nodiscard]] double median(std::vector<double> speeds);

}  // namespace mpi_bridge::gpus
