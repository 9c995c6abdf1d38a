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

// out[r] goes to rank r, in[r] comes from rank r; this rank's own part is copied.
[[nodiscard]] Done alltoall_pairwise(Conversation& talk, std::span<const ConstBytes> out,
                                     std::span<const Bytes> in);

[[nodiscard]] Done barrier_dissemination(Conversation& talk);

}  // namespace mpi_bridge
