// SPDX-License-Identifier: Apache-2.0
//
// Halving and doubling, for vectors of medium length: as few bytes as the ring, 2(n-1)/n of the
// vector per rank, in 2*ceil(log2 n) steps instead of 2(n-1). (If n is a power of two, this is
// known as Rabenseifner's algorithm.) Beyond a few ranks it is also the best for long vectors,
// unless distant ranks share links; the ring avoids that.
//
// The vector is cut into one block per rank. A reduce-scatter halves the data of a rank from step
// to step, until the rank has the results of its own block; an allgather then doubles it back to
// the whole vector. See collectives/algorithms/circulant.hpp, which also handles numbers of ranks
// that are not a power of two, with no more bytes and without idle ranks.
//
// Every result is computed once, by the owner of its block, in an order that depends only on the
// number of ranks. So all ranks get the same bits, in every run.
//
// In place: values of recv are sent only in the first step, and results are written after it.

#include "collectives/algorithms/circulant.hpp"
#include "collectives/algorithms/collectives.hpp"

namespace mpi_bridge {

Done allreduce_circulant(Conversation& talk, const Reducer& reducer, const std::byte* send,
                         std::byte* recv, std::size_t count) {
    if (reduced_alone(talk, reducer, send, recv, count)) return {};
    const auto blocks = Chunks::even(count, talk.size());
    circulant::Scattering whole;
    whole.send = send;
    whole.blocks = blocks;
    const auto reduced = TRY(circulant::reduce_scatter(talk, reducer, whole));
    const Slice own = blocks[talk.rank()];
    reducer.store(recv + own.offset * reducer.value_bytes(), reduced.accumulators, own.length,
                  talk.size());

    circulant::Gathering rest;
    rest.data = recv;
    rest.item_bytes = reducer.value_bytes();
    rest.blocks = blocks;
    rest.first_step = static_cast<std::uint32_t>(circulant::widths(talk.size()).size());
    return circulant::allgather(talk, rest);
}

}  // namespace mpi_bridge
