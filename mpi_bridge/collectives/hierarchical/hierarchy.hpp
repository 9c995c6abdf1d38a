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

}  // namespace mpi_bridge
