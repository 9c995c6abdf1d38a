// SPDX-License-Identifier: Apache-2.0
//
// Ring reduce-scatter: chunk r holds the counts[r] elements whose result rank r gets. Chunk c
// starts at rank c+1 and travels up the ring to rank c; each rank on the way adds its own elements,
// the last one stores the result. See collectives/ring.hpp for segments and rounds.
#include <algorithm>
#include <cstring>

#include "collectives/collectives.hpp"
#include "collectives/ring.hpp"

namespace mpi_bridge {

Done reduce_scatter_ring(Conversation& talk, const Reduction& reduction, const std::byte* send,
                         std::byte* recv, std::span<const std::size_t> counts) {
    const int size = talk.size();
    if (size == 1) {
        if (counts[0] != 0) std::memcpy(recv, send, counts[0] * reduction.element_bytes);
        return {};
    }
    std::vector<ring::Slice> chunks;
    std::size_t offset = 0;
    for (const std::size_t count : counts) {
        chunks.push_back({offset, count});
        offset += count;
    }
    const std::size_t own_offset = chunks[static_cast<std::size_t>(talk.rank())].offset;
    const std::size_t segment =
        std::max<std::size_t>(1, talk.segment_bytes() / reduction.accumulator_bytes);
    const ring::Cut cut(std::move(chunks), segment);
    const auto store = [&](const std::byte* accumulators, ring::Slice slice) {
        reduction.store(recv + (slice.offset - own_offset) * reduction.element_bytes, accumulators,
                        slice.length, size);
    };
    for (std::size_t round = 0; round < cut.rounds(); ++round) {
        auto reduced = ring::reduce_scatter_round(talk, reduction, send, cut, round, 0, store);
        if (!reduced) return reduced;
    }
    return {};
}

}  // namespace mpi_bridge
