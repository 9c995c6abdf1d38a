// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mpi_bridge {

// A set of small numbers: n is bit n % 64 of word n / 64. Missing words count as zero.
using Bits = std::vector<std::uint64_t>;

inline void set_bit(Bits& bits, std::size_t at) {
    if (bits.size() <= at / 64) bits.resize(at / 64 + 1);
    bits[at / 64] |= std::uint64_t{1} << (at % 64);
}

[[nodiscard]] inline bool has_bit(const Bits& bits, std::size_t at) {
    return at / 64 < bits.size() && (bits[at / 64] >> (at % 64) & 1) != 0;
}

// A word that members reduce: the mask by OR and the number by MAX.
struct Word {
    std::uint64_t mask = 0;
    std::uint64_t number = 0;
};

[[nodiscard]] inline bool has_none(const Bits& bits) {
    return std::all_of(bits.begin(), bits.end(), [](std::uint64_t word) { return word == 0; });
}

}  // namespace mpi_bridge
