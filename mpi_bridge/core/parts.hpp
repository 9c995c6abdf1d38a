// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace mpi_bridge {

// Cuts memory into consecutive parts of these lengths, which count units of so many bytes. If the
// memory is null, so are the parts.
template <typename Byte, typename Lengths>
[[nodiscard]] std::vector<std::span<Byte>> cut(Byte* memory, const Lengths& lengths,
                                               std::size_t unit = 1) {
    std::vector<std::span<Byte>> parts;
    parts.reserve(lengths.size());
    std::size_t offset = 0;
    for (const auto length : lengths) {
        const std::size_t bytes = static_cast<std::size_t>(length) * unit;
        parts.emplace_back(memory == nullptr ? nullptr : memory + offset, bytes);
        offset += bytes;
    }
    return parts;
}

// Returns the least multiple of `unit` that is not less than `value`.
[[nodiscard]] constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
    return (value + unit - 1) / unit * unit;
}

}  // namespace mpi_bridge
