// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace mpi_bridge {

// A contiguous part of a vector, in items (values or bytes).
struct Slice {
    std::size_t offset = 0;
    std::size_t length = 0;
};

// `count` items in `parts` chunks whose lengths differ by one at most, the longer ones first.
[[nodiscard]] std::vector<Slice> even_chunks(std::size_t count, int parts);

// Chunks of the given lengths, one after the other.
[[nodiscard]] std::vector<Slice> chunks_of(std::span<const std::size_t> lengths);

// value modulo size, never negative.
[[nodiscard]] constexpr int wrapped(int value, int size) {
    return ((value % size) + size) % size;
}

}  // namespace mpi_bridge
