// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "collectives/conversation.hpp"
#include "reduce/reduction.hpp"

// The collective algorithms, one file each. They return when this rank's part is done. After a
// failure the transport must be abandoned before any of the memory is reused. Arguments are checked
// by the caller; mpi_bridge.h says what each collective computes.
namespace mpi_bridge {

// recv may be send. `count` elements.
[[nodiscard]] Done allreduce_recursive_doubling(Conversation& talk, const Reduction& reduction,
                                                const std::byte* send, std::byte* recv,
                                                std::size_t count);
[[nodiscard]] Done allreduce_ring(Conversation& talk, const Reduction& reduction,
                                  const std::byte* send, std::byte* recv, std::size_t count);

// counts[r] elements of the result go to rank r; recv must not overlap send.
[[nodiscard]] Done reduce_scatter_ring(Conversation& talk, const Reduction& reduction,
                                       const std::byte* send, std::byte* recv,
                                       std::span<const std::size_t> counts);

// parts[r] is where rank r's contribution belongs; the own part is in place already.
[[nodiscard]] Done allgather_ring(Conversation& talk, std::span<const Bytes> parts);

[[nodiscard]] Done broadcast_binomial(Conversation& talk, Bytes data, int root);

// out[r] goes to rank r, in[r] comes from rank r; the own part is copied.
[[nodiscard]] Done alltoall_pairwise(Conversation& talk, std::span<const ConstBytes> out,
                                     std::span<const Bytes> in);

[[nodiscard]] Done barrier_dissemination(Conversation& talk);

}  // namespace mpi_bridge
