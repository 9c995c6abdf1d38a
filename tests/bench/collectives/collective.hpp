// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace bench {

enum class Collective { allreduce, reduce_scatter, allgather, alltoall, broadcast };

inline constexpr std::array<std::string_view, 5> collective_names = {
    "allreduce", "reduce_scatter", "allgather", "alltoall", "broadcast"};

// Throws std::invalid_argument for a name that is none of the above.
[[nodiscard]] Collective collective_named(std::string_view name);

// How many floats a rank has of a vector of `bytes`, which is the longer one of its two buffers:
// what is reduced, or all that is gathered. Where the vector has a part for each rank all parts are
// equal and not empty, so that 8 bytes among 4 ranks become 16.
struct Extent {
    Extent(Collective collective, std::size_t bytes, int ranks);

    std::size_t part;   // floats of one rank's part; of a vector without parts the whole
    std::size_t whole;  // floats of the vector

    [[nodiscard]] std::size_t bytes() const { return whole * sizeof(float); }
};

// The bytes that a rank must receive at the least, whatever the algorithm: nccl-tests' factors of
// bus bandwidth.
[[nodiscard]] std::size_t least_received(Collective collective, std::size_t bytes, int ranks);

}  // namespace bench
