// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

namespace mpi_bridge {

// A contiguous part of a vector, in items (values or bytes).
struct Slice {
    std::size_t offset = 0;
    std::size_t length = 0;
};

// Part `index` when `count` items are cut into `parts` parts whose lengths differ by one at most,
// the longer ones first. Part `parts` would start at the end.
[[nodiscard]] constexpr Slice even_slice(std::size_t count, int parts, int index) {
    const auto pieces = static_cast<std::size_t>(parts);
    const auto place = static_cast<std::size_t>(index);
    const std::size_t length = count / pieces;
    const std::size_t longer = count % pieces;
    return {place * length + std::min(place, longer), length + (place < longer ? 1 : 0)};
}

}  // namespace mpi_bridge
