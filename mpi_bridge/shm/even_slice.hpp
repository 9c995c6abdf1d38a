// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

#include "collectives/chunks.hpp"

namespace mpi_bridge {

// Part `index` of `count` items cut into `parts` parts whose lengths differ by one at most, the
// longer ones first: even_chunks(count, parts)[index], without the memory.
[[nodiscard]] constexpr Slice even_slice(std::size_t count, int parts, int index) {
    const auto pieces = static_cast<std::size_t>(parts);
    const auto place = static_cast<std::size_t>(index);
    const std::size_t length = count / pieces;
    const std::size_t longer = count % pieces;
    return {place * length + std::min(place, longer), length + (place < longer ? 1 : 0)};
}

}  // namespace mpi_bridge
