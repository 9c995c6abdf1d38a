// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

#include "shm/copy.hpp"

namespace mpi_bridge::shm {

// Copies what another rank has put in a staging buffer, and writes to each of its cache lines. A
// processor that reads a line and then writes to it gets the line for itself. The rank that puts
// the next data there would otherwise have to take the line from two caches, which costs several
// times as much. This is only for data that no other rank reads, and destroys it.
inline void copy_and_take_over(std::byte* to, std::byte* from, std::size_t length,
                               Copy* copy = copy_through_caches) {
    constexpr std::size_t line = 64;
    // A block stays in the first-level cache while it is copied and written.
    constexpr std::size_t longest_block = 8UL << 10;
    for (std::size_t done = 0; done < length; done += longest_block) {
        const std::size_t block = std::min(longest_block, length - done);
        copy(to + done, from + done, block);
        for (std::size_t at = 0; at < block; at += line)
            *static_cast<volatile std::byte*>(from + done + at) = std::byte{0};
    }
}

}  // namespace mpi_bridge::shm
