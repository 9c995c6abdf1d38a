// SPDX-License-Identifier: Apache-2.0
//
// Halving and doubling, for vectors of medium length: as few bytes as the ring, 2(n-1)/n of the
// vector per rank, in 2*ceil(log2 n) steps instead of 2(n-1). (Known as Rabenseifner's algorithm
// where n is a power of two.) Beyond a few ranks it is also the best for long vectors, unless far
// ranks share links, which the ring does not ask for.
//
// The vector is cut into one block per rank. A reduce-scatter halves what a rank works on from step
// to step, until it has the results of its own block; an allgather doubles it back to the whole
// vector. See collectives/circulant.hpp, also for numbers of ranks that are no power of two: these
// need neither more bytes nor ranks that sit out.
//
// Every result is computed once, by its block's owner, in an order that depends on the number of
// ranks only: the same bits on all ranks and in every run.
//
// In place: values of recv are sent in the first step only, and results come after it.
#include <cstring>

#include "collectives/circulant.hpp"
#include "collectives/collectives.hpp"

namespace mpi_bridge {

Done allreduce_halving_doubling(Conversation& talk, const Reducer& reducer, const std::byte* send,
                                std::byte* recv, std::size_t count) {
    if (count == 0) return {};
    if (talk.size() == 1) {
        std::memmove(recv, send, count * reducer.value_bytes());
        return {};
    }
    const auto blocks = Chunks::even(count, talk.size());
    circulant::Scattering whole;
    whole.send = send;
    whole.blocks = blocks;
    auto reduced = circulant::reduce_scatter(talk, reducer, whole);
    if (!reduced) return pass_on(std::move(reduced));
    const Slice own = blocks[talk.rank()];
    reducer.store(recv + own.offset * reducer.value_bytes(), reduced->accumulators, own.length,
                  talk.size());

    circulant::Gathering rest;
    rest.data = recv;
    rest.item_bytes = reducer.value_bytes();
    rest.blocks = blocks;
    rest.first_step = static_cast<std::uint32_t>(circulant::widths(talk.size()).size());
    return circulant::allgather(talk, rest);
}

}  // namespace mpi_bridge
