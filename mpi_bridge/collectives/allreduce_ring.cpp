// SPDX-License-Identifier: Apache-2.0
//
// Ring allreduce, for long vectors: every rank sends and receives 2(n-1)/n of the vector, which is
// the least possible, over two connections.
//
// The vector is cut into n chunks of equal length (the first ones may be one element longer) and
// worked off in rounds. A round is a reduce-scatter, after which rank r has the finished results of
// its slice of chunk r, followed by an allgather, which hands the finished slices around. Finished
// results are stored in recv at once and travel from there, so a round needs no memory but that of
// the partial results.
//
// Partial results travel as accumulators and finished ones as elements: FLOAT16 and BFLOAT16 take
// 1.5 times the bytes of a plain 16-bit ring and are rounded once instead of n-1 times.
//
// In place: elements of recv are overwritten by finished results only, and a result is finished
// only after every rank, this one included, has added its own elements to it.
#include <algorithm>
#include <cstring>

#include "collectives/collectives.hpp"
#include "collectives/ring.hpp"

namespace mpi_bridge {

Done allreduce_ring(Conversation& talk, const Reduction& reduction, const std::byte* send,
                    std::byte* recv, std::size_t count) {
    const int size = talk.size();
    const std::size_t element_bytes = reduction.element_bytes;
    if (size == 1) {
        if (count != 0) std::memmove(recv, send, count * element_bytes);
        return {};
    }
    const std::size_t segment =
        std::max<std::size_t>(1, talk.segment_bytes() / reduction.accumulator_bytes);
    const ring::Cut cut(ring::even_chunks(count, size), segment);
    const auto store = [&](const std::byte* accumulators, ring::Slice slice) {
        reduction.store(recv + slice.offset * element_bytes, accumulators, slice.length, size);
    };
    const auto locate = [&](int /*chunk*/, ring::Slice slice) {
        return Bytes(recv + slice.offset * element_bytes, slice.length * element_bytes);
    };
    const auto steps = static_cast<std::uint32_t>(size - 1);
    for (std::size_t round = 0; round < cut.rounds(); ++round) {
        auto reduced = ring::reduce_scatter_round(talk, reduction, send, cut, round, 0, store);
        if (!reduced) return reduced;
        auto gathered = ring::allgather_round(talk, cut, round, steps, locate);
        if (!gathered) return gathered;
    }
    return {};
}

}  // namespace mpi_bridge
