// SPDX-License-Identifier: Apache-2.0
//
// Ring allreduce, for long vectors: every rank sends and receives 2(n-1)/n of the vector, which is
// the least possible, over two connections.
//
// The vector is cut into n chunks of equal length (the first ones may be one element longer). A
// chunk goes around the ring twice. The first time, every rank adds its values, so that chunk r
// arrives reduced at rank r (reduce-scatter). The second time, the result is passed on to all ranks
// (allgather). Results are stored in recv at once and travel from and to there, so that only the
// partial results in flight need extra memory. See collectives/algorithms/ring.hpp.
//
// Every result is computed once: for chunk c, the values of ranks c+1, c+2, … c are added in this
// order. So all ranks get the same bits, in every run.
//
// Partial results travel as accumulators and finished ones as elements. FLOAT16 and BFLOAT16 thus
// take 1.5 times the bytes of a plain 16-bit ring, and are rounded once instead of n-1 times.
//
// In place: only finished results overwrite elements of recv, and a result is finished only after
// every rank, including this one, has added its own elements to it.

#include "collectives/algorithms/collectives.hpp"
#include "collectives/algorithms/ring.hpp"

namespace mpi_bridge {

Done allreduce_ring(Conversation& talk, const Reducer& reducer, const std::byte* send,
                    std::byte* recv, std::size_t count) {
    if (reduced_alone(talk, reducer, send, recv, count)) return {};
    const int size = talk.size();
    const auto cut =
        ring::cut_for(Chunks::even(count, size), reducer.accumulator_bytes(), talk.segment_bytes());
    ring::Reducing payload(talk, reducer, cut, send, recv, 0);
    return ring::flow(talk, cut, {0, 2 * size - 3}, payload);
}

}  // namespace mpi_bridge
