// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include "collectives/conversation.hpp"
#include "collectives/reducer.hpp"

// The collective algorithms, with one file for each. They return when this rank's part is done.
// After a failure the transport must be abandoned before any of the memory is reused. The caller
// checks the arguments; mpi_bridge.h says what each collective computes. All algorithms are correct
// for any number of ranks and any length; collectives/select/ decides which one is best.
//
// A Reduction converts to a Reducer; accumulators_of(reduction) returns a Reducer that takes and
// gives partial results.
//
//   barrier_dissemination.cpp            each rank signals ranks at doubling distances
//   broadcast_binomial.cpp               for short data: down a tree
//   broadcast_chain.cpp                  for long data among few ranks: from rank to rank
//   broadcast_scatter_allgather.cpp      for long data among many ranks
//   reduce_binomial.cpp                  for short vectors: up a tree
//   reduce_halving.cpp                   for long vectors: a reduce-scatter and a gather
//   allreduce_recursive_multiplying.cpp  for short vectors: few steps, but whole vectors
//   allreduce_direct.cpp                 for medium lengths among few ranks: two steps
//   allreduce_circulant.cpp              for medium lengths: halving and doubling
//   allreduce_ring.cpp                   for long vectors: around the ring twice
//   reduce_scatter_circulant.cpp         for short and medium vectors: by halving
//   reduce_scatter_ring.cpp              around the ring
//   allgather_bruck.cpp                  for short parts: few steps, with copies
//   allgather_ring.cpp                   for long parts: around the ring
//   alltoall_bruck.cpp                   for short messages among many ranks: few steps, in which
//                                        messages pass through other ranks
//   alltoall_pairwise.cpp                each step sends to one rank and receives from another one;
//                                        those of short messages are taken at once
//
//   circulant.hpp                        the common part of the algorithms that halve and double
//   ring.hpp                             the common part of the ring algorithms
//   tree.hpp                             the trees, and how data moves down one
//   transfer.hpp                         sends to one rank while it receives from another one
namespace mpi_bridge {

// Reduces a whole vector for which no message is needed, because there are no values or no other
// ranks. Returns whether that was so.
[[nodiscard]] inline bool reduced_alone(const Conversation& talk, const Reducer& reducer,
                                        const std::byte* send, std::byte* recv, std::size_t count) {
    if (count == 0) return true;
    if (talk.size() > 1) return false;
    std::memmove(recv, send, count * reducer.value_bytes());
    return true;
}

// The algorithms that are called by name, in all cases; collectives/select/algorithms.hpp has those
// to choose from.
[[nodiscard]] Done allreduce_recursive_doubling(Conversation& talk, const Reducer& reducer,
                                                const std::byte* send, std::byte* recv,
                                                std::size_t count);
// The radix is at least 2.
[[nodiscard]] Done allreduce_recursive_multiplying(Conversation& talk, const Reducer& reducer,
                                                   const std::byte* send, std::byte* recv,
                                                   std::size_t count, int radix);

// Lets the ranks tell each other what each knows of its own messages.
[[nodiscard]] Outcome<MessageLengths> agree_on_lengths(Conversation& talk,
                                                       const MessageLengths& own);

// out[r] goes to rank r, in[r] comes from rank r; this rank's own part is copied. The lengths need
// not be known.
[[nodiscard]] Done alltoall_pairwise(Conversation& talk, std::span<const ConstBytes> out,
                                     std::span<const Bytes> in, MessageLengths lengths);

[[nodiscard]] Done barrier_dissemination(Conversation& talk);

}  // namespace mpi_bridge
