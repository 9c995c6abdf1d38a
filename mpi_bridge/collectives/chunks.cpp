// SPDX-License-Identifier: Apache-2.0
#include "collectives/chunks.hpp"

namespace mpi_bridge {

std::vector<Slice> even_chunks(std::size_t count, int parts) {
    const auto divisor = static_cast<std::size_t>(parts);
    std::vector<Slice> chunks;
    chunks.reserve(divisor);
    std::size_t offset = 0;
    for (std::size_t part = 0; part < divisor; ++part) {
        const std::size_t length = count / divisor + (part < count % divisor ? 1 : 0);
        chunks.push_back({offset, length});
        offset += length;
    }
    return chunks;
}

std::vector<Slice> chunks_of(std::span<const std::size_t> lengths) {
    std::vector<Slice> chunks;
    chunks.reserve(lengths.size());
    std::size_t offset = 0;
    for (const std::size_t length : lengths) {
        chunks.push_back({offset, length});
        offset += length;
    }
    return chunks;
}

}  // namespace mpi_bridge
