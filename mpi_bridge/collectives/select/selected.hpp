// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/algorithms/collectives.hpp"
#include "collectives/select/algorithms.hpp"
#include "collectives/select/selection.hpp"

namespace mpi_bridge {

// Runs the chosen algorithm. The arguments are as in collectives/algorithms/collectives.hpp.
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

// Does the same, and chooses the algorithm by the length of the vector.
[[nodiscard]] Done run_allreduce(Selection& selection, Conversation& talk, const Reducer& reducer,
                                 const std::byte* send, std::byte* recv, std::size_t count);
[[nodiscard]] Done run_reduce(Selection& selection, Conversation& talk, const Reducer& reducer,
                              const std::byte* send, std::byte* recv, std::size_t count, int root);
[[nodiscard]] Done run_reduce_scatter(Selection& selection, Conversation& talk,
                                      const Reducer& reducer, const std::byte* send,
                                      std::byte* recv, std::span<const std::size_t> counts);
[[nodiscard]] Done run_allgather(Selection& selection, Conversation& talk,
                                 std::span<const Bytes> parts);
[[nodiscard]] Done run_broadcast(Selection& selection, Conversation& talk, Bytes data, int root);

}  // namespace mpi_bridge
