// SPDX-License-Identifier: Apache-2.0
//
// Ring reduce-scatter: chunk r holds the counts[r] elements whose result goes to rank r. Chunk c
// starts at rank c+1 and travels up the ring to rank c. Each rank on the way adds its own elements,
// and the last one stores the result. See collectives/algorithms/ring.hpp.
#include <cstring>

#include "collectives/algorithms/collectives.hpp"
#include "collectives/algorithms/ring.hpp"

namespace mpi_bridge {

Done reduce_scatter_ring(Conversation& talk, const Reducer& reducer, const std::byte* send,
                         std::byte* recv, std::span<const std::size_t> counts) {
    const int size = talk.size();
    if (size == 1) {
        if (counts[0] != 0) std::memcpy(recv, send, counts[0] * reducer.value_bytes());
        return {};
    }
    const auto cut =
        ring::cut_for(Chunks::of(counts), reducer.accumulator_bytes(), talk.segment_bytes());
    const std::size_t own_offset = cut.chunks().start(talk.rank());
    ring::Reducing payload(talk, reducer, cut, send, recv, own_offset);
    return ring::flow(talk, cut, {0, size - 2}, payload);
}

}  // namespace mpi_bridge
