// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include "collectives/conversation.hpp"
#include "collectives/layout.hpp"
#include "collectives/reducer.hpp"
#include "reduce/reduction.hpp"
#include "shm/node_stage.hpp"

// Collectives over several nodes with several ranks on some: what can be done inside a node goes
// through its shared memory, so that each byte crosses the network once for the node.
namespace mpi_bridge {

// What one call of a hierarchical collective needs. The conversations talk over the transport:
// among the leaders of all nodes, and among the ranks in this rank's seat on each node.
struct Hierarchy {
    const Layout& layout;
    NodeStage& stage;
    shm::Turn turn;
    Conversation* leaders;  // nullptr where this rank leads no node
    Conversation& across;
    Scratch& partial;  // for accumulators; not the conversations' own
    int ranks;         // of the whole group
    // Chooses the algorithm between nodes, by the length of the vector.
    std::function<Done(Conversation& talk, const Reducer& reducer, std::byte* values,
                       std::size_t count)>
        allreduce_in_place;
    std::function<Done(Conversation& talk, Bytes data, int root)> broadcast;
};

// For short vectors: to the leader through shared memory, among the leaders, and back.
[[nodiscard]] Done allreduce_by_leaders(const Hierarchy& all, const Reduction& reduction,
                                        const std::byte* send, std::byte* recv, std::size_t count);

// For long vectors, where all nodes have equally many ranks: each rank of a node reduces one slice
// of the node's vectors and brings it together with the same slice of the other nodes, so that all
// ranks of a node use the network at once.
[[nodiscard]] Done allreduce_by_slices(const Hierarchy& all, const Reduction& reduction,
                                       const std::byte* send, std::byte* recv, std::size_t count);

// recv is used on the root only; root is a number of the group.
[[nodiscard]] Done reduce_by_leaders(const Hierarchy& all, const Reduction& reduction,
                                     const std::byte* send, std::byte* recv, std::size_t count,
                                     int root_host, int root_seat);

[[nodiscard]] Done broadcast_by_leaders(const Hierarchy& all, Bytes data, int root_host,
                                        int root_seat);

[[nodiscard]] Done barrier_by_leaders(const Hierarchy& all);

}  // namespace mpi_bridge
