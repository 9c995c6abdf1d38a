// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "collectives/conversation.hpp"
#include "collectives/group_layout.hpp"
#include "collectives/select/selection.hpp"
#include "reduce/reduction.hpp"
#include "shm/node_stage.hpp"

// Collectives over several nodes, some of which have several ranks. Whatever can be done inside a
// node goes through its shared memory, so that each byte crosses the network once for the node.
// Each collective has a file of its own, which describes the path of the data.
//
// "By leaders" is for short data: one rank of each node talks to the other nodes. "By rails" is for
// long data: the ranks on all rails (see group_layout.hpp) do, each with its share. They
// share the node's link, so the algorithm is chosen by the length of all shares together.
//
//   hierarchical.hpp    declares the collectives, and has what several of them need
//   allreduce.cpp       by leaders and by rails
//   reduce.cpp          by leaders and by rails
//   reduce_scatter.cpp  by rails
//   allgather.cpp       by leaders and by rails
//   broadcast.cpp       by leaders and by rails
//   alltoall.cpp        long messages directly, short ones by leaders
//   barrier.cpp         by leaders
namespace mpi_bridge {

// What one call of a hierarchical collective needs.
struct Hierarchy {
    const Layout& layout;
    NodeStage& stage;
    shm::Turn turn;
    Selection& selection;  // chooses the algorithms between hosts
    // The conversation among the members on this rank's rail, by host. Only ranks on a rail use it.
    Conversation& across;
    Scratch& scratch;  // not the one that the conversation uses
    // How many bytes are processed at once if that needs memory: of a rank's accumulators, or of
    // the data that a rank gathers.
    std::size_t share_bytes;
    int ranks;  // of the whole group

    [[nodiscard]] bool spans_hosts() const { return layout.host_count() > 1; }
    // The algorithm between hosts for that many bytes, of all rails together.
    template <typename Collective>
    [[nodiscard]] const Algorithm<Collective>& choose(std::size_t bytes) const {
        return selection.choose<Collective>(bytes, layout.host_count());
    }
};

// The part of a vector that the members with a local rank exchange between hosts; empty for a local
// rank that is not on a rail.
[[nodiscard]] Slice slice_of_rail(const Layout& layout, std::size_t count, int local_rank);

// Reduces the vectors of this rank's node, which have counts[r] elements for local rank r; that
// rank gets them as accumulators.
[[nodiscard]] Done reduce_to_rails(const Hierarchy& all, const Reduction& reduction,
                                   const std::byte* send, std::byte* accumulators,
                                   std::span<const std::size_t> counts);

// Several areas of scratch memory, each aligned for every datatype.
template <std::size_t areas>
[[nodiscard]] std::array<Bytes, areas> take_areas(Scratch& scratch,
                                                  const std::size_t (&lengths)[areas]) {
    constexpr std::size_t unit = 64;
    const auto padded = [](std::size_t bytes) { return (bytes + unit - 1) / unit * unit; };
    std::size_t total = 0;
    for (const std::size_t length : lengths)
        total += padded(length);
    Bytes rest = scratch.take(total);
    std::array<Bytes, areas> taken;
    for (std::size_t area = 0; area < areas; ++area) {
        taken[area] = rest.first(lengths[area]);
        rest = rest.subspan(padded(lengths[area]));
    }
    return taken;
}

// ---- The collectives ----

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
