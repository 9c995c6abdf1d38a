// SPDX-License-Identifier: Apache-2.0
//
// Ring allreduce, for long vectors: every rank sends and receives 2(n-1)/n of the vector, which is
// the least possible, over two connections.
//
// The vector is cut into n chunks of equal length (the first ones may be one element longer). A
// chunk goes around the ring twice: the first time every rank adds its values, so that chunk r
// comes to rank r reduced (reduce-scatter); the second time the result is handed around
// (allgather). Results are stored in recv at once and travel from and to there, so that no memory
// is needed but for the partial results that are under way. See collectives/ring.hpp.
//
// Every result is computed once, by adding the values of ranks c+1, c+2, … c of chunk c in this
// order: the same bits on all ranks and in every run.
//
// Partial results travel as accumulators and finished ones as elements: FLOAT16 and BFLOAT16 take
// 1.5 times the bytes of a plain 16-bit ring and are rounded once instead of n-1 times.
//
// In place: elements of recv are overwritten by finished results only, and a result is finished
// only after every rank, this one included, has added its own elements to it.
#include <cstring>

#include "collectives/collectives.hpp"
#include "collectives/ring.hpp"

namespace mpi_bridge {

Done allreduce_ring(Conversation& talk, const Reducer& reducer, const std::byte* send,
                    std::byte* recv, std::size_t count) {
    const int size = talk.size();
    if (size == 1) {
        if (count != 0) std::memmove(recv, send, count * reducer.value_bytes());
        return {};
    }
    const auto cut =
        ring::cut_for(Chunks::even(count, size), reducer.accumulator_bytes(), talk.segment_bytes());
    ring::Reducing cargo(talk, reducer, cut, send, recv, 0);
    return ring::flow(talk, cut, {0, 2 * size - 3}, cargo);
}

}  // namespace mpi_bridge
