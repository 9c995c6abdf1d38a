// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace mpi_bridge {

// Whether two ranges of memory have a byte in common.
[[nodiscard]] inline bool overlap(const void* a, std::size_t bytes_a, const void* b,
                                  std::size_t bytes_b) {
    const auto first = reinterpret_cast<std::uintptr_t>(a);
    const auto second = reinterpret_cast<std::uintptr_t>(b);
    // Compares differences, because an end may lie beyond the last address.
    return bytes_a != 0 && bytes_b != 0 &&
           (first <= second ? second - first < bytes_a : first - second < bytes_b);
}

}  // namespace mpi_bridge
