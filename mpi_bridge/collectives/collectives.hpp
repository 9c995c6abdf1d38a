// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "collectives/conversation.hpp"
#include "collectives/reducer.hpp"

// The collective algorithms, one file each. They return when this rank's part is done. After a
// failure the transport must be abandoned before any of the memory is reused. Arguments are checked
// by the caller; mpi_bridge.h says what each collective computes. Which one is best when is for
// select/ to say; all are right for any number of ranks and any length.
//
// A Reduction is a Reducer; accumulators_of(reduction) is one that takes and gives partial results.
namespace mpi_bridge {

// `count` values; recv may be send. All ranks get the same bits, in every run.
[[nodiscard]] Done allreduce_recursive_doubling(Conversation& talk, const Reducer& reducer,
                                                const std::byte* send, std::byte* recv,
                                                std::size_t count);
[[nodiscard]] Done allreduce_recursive_quadrupling(Conversation& talk, const Reducer& reducer,
                                                   const std::byte* send, std::byte* recv,
                                                   std::size_t count);
// radix: from 2.
[[nodiscard]] Done allreduce_recursive_multiplying(Conversation& talk, const Reducer& reducer,
                                                   const std::byte* send, std::byte* recv,
                                                   std::size_t count, int radix);
[[nodiscard]] Done allreduce_halving_doubling(Conversation& talk, const Reducer& reducer,
                                              const std::byte* send, std::byte* recv,
                                              std::size_t count);
[[nodiscard]] Done allreduce_ring(Conversation& talk, const Reducer& reducer, const std::byte* send,
                                  std::byte* recv, std::size_t count);

// `count` values; the result is in recv of the root only, which may be its send. Elsewhere recv is
// not used.
[[nodiscard]] Done reduce_binomial(Conversation& talk, const Reducer& reducer,
                                   const std::byte* send, std::byte* recv, std::size_t count,
                                   int root);
[[nodiscard]] Done reduce_halving(Conversation& talk, const Reducer& reducer, const std::byte* send,
                                  std::byte* recv, std::size_t count, int root);

// counts[r] values of the result go to rank r; recv must not overlap send.
[[nodiscard]] Done reduce_scatter_halving(Conversation& talk, const Reducer& reducer,
                                          const std::byte* send, std::byte* recv,
                                          std::span<const std::size_t> counts);
[[nodiscard]] Done reduce_scatter_ring(Conversation& talk, const Reducer& reducer,
                                       const std::byte* send, std::byte* recv,
                                       std::span<const std::size_t> counts);

// parts[r] is where rank r's contribution belongs; the own part is in place already.
[[nodiscard]] Done allgather_bruck(Conversation& talk, std::span<const Bytes> parts);
[[nodiscard]] Done allgather_ring(Conversation& talk, std::span<const Bytes> parts);

[[nodiscard]] Done broadcast_binomial(Conversation& talk, Bytes data, int root);
[[nodiscard]] Done broadcast_chain(Conversation& talk, Bytes data, int root);
[[nodiscard]] Done broadcast_scatter_allgather(Conversation& talk, Bytes data, int root);

// out[r] goes to rank r, in[r] comes from rank r; the own part is copied.
[[nodiscard]] Done alltoall_pairwise(Conversation& talk, std::span<const ConstBytes> out,
                                     std::span<const Bytes> in);

[[nodiscard]] Done barrier_dissemination(Conversation& talk);

}  // namespace mpi_bridge
