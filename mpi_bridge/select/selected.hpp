// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/collectives.hpp"
#include "select/algorithms.hpp"

namespace mpi_bridge {

// Runs the algorithm that was chosen. Arguments as in collectives/collectives.hpp.
[[nodiscard]] Done run_allreduce(AllreduceAlgorithm algorithm, Conversation& talk,
                                 const Reducer& reducer, const std::byte* send, std::byte* recv,
                                 std::size_t count);
[[nodiscard]] Done run_reduce(ReduceAlgorithm algorithm, Conversation& talk, const Reducer& reducer,
                              const std::byte* send, std::byte* recv, std::size_t count, int root);
[[nodiscard]] Done run_reduce_scatter(ReduceScatterAlgorithm algorithm, Conversation& talk,
                                      const Reducer& reducer, const std::byte* send,
                                      std::byte* recv, std::span<const std::size_t> counts);
[[nodiscard]] Done run_allgather(AllgatherAlgorithm algorithm, Conversation& talk,
                                 std::span<const Bytes> parts);
[[nodiscard]] Done run_broadcast(BroadcastAlgorithm algorithm, Conversation& talk, Bytes data,
                                 int root);

}  // namespace mpi_bridge
