// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "collectives/hierarchical/hierarchy.hpp"

// Collectives over several nodes, some of which have several ranks. Whatever can be done inside a
// node goes through its shared memory, so that each byte crosses the network once for the node.
// Each collective has a file of its own, which describes the path of the data.
//
// "By leaders" is for short data: one rank of each node talks to the other nodes. "By rails" is for
// long data: the ranks on all rails (see group_layout.hpp) do, each with its share. They
// share the node's link, so the algorithm is chosen by the length of all shares together.
namespace mpi_bridge {

// recv may be send.
[[nodiscard]] Done allreduce_by_leaders(const Hierarchy& all, const Reduction& reduction,
                                        const std::byte* send, std::byte* recv, std::size_t count);
[[nodiscard]] Done allreduce_by_rails(const Hierarchy& all, const Reduction& reduction,
                                      const std::byte* send, std::byte* recv, std::size_t count);

// recv is used on the root only, and may be its send.
[[nodiscard]] Done reduce_by_leaders(const Hierarchy& all, const Reduction& reduction,
                                     const std::byte* send, std::byte* recv, std::size_t count,
                                     int root);
[[nodiscard]] Done reduce_by_rails(const Hierarchy& all, const Reduction& reduction,
                                   const std::byte* send, std::byte* recv, std::size_t count,
                                   int root);

// counts[r] elements go to member r. For any length.
[[nodiscard]] Done reduce_scatter_by_rails(const Hierarchy& all, const Reduction& reduction,
                                           const std::byte* send, std::byte* recv,
                                           std::span<const std::size_t> counts);

// parts[r] is where member r's part belongs; this member's own part is already in place.
[[nodiscard]] Done allgather_by_leaders(const Hierarchy& all, std::span<const Bytes> parts);
[[nodiscard]] Done allgather_by_rails(const Hierarchy& all, std::span<const Bytes> parts);

[[nodiscard]] Done broadcast_by_leaders(const Hierarchy& all, Bytes data, int root);
[[nodiscard]] Done broadcast_by_rails(const Hierarchy& all, Bytes data, int root);

// out[r] goes to member r, in[r] comes from member r. For any length; `everyone` is a conversation
// of the whole group.
[[nodiscard]] Done alltoall_by_leaders(const Hierarchy& all, Conversation& everyone,
                                       std::span<const ConstBytes> out, std::span<const Bytes> in);

[[nodiscard]] Done barrier_by_leaders(const Hierarchy& all);

}  // namespace mpi_bridge
