// SPDX-License-Identifier: Apache-2.0
//
// In both variants, the ranks of a node first show each other their own parts.
//
// By leaders: a node's parts form one block, in the order of its ranks. The leaders gather all
// blocks, and each shows its node all of them.
//
// By rails: the ranks on a rail gather their own parts, at their final place. Further rows of this
// gather the parts of the members that the rail serves without having them on it. The ranks of a
// node then show each other what they have gathered, row by row and for each other node. This needs
// no memory but the caller's.
//
// In both variants, a node receives each part of the other nodes once.
#include <cstring>
#include <vector>

#include "collectives/hierarchical/hierarchical.hpp"

namespace mpi_bridge {
namespace {

// Gathers the parts of this rank's own node; those of other nodes remain.
Done gather_on_node(const Hierarchy& all, std::span<const Bytes> parts) {
    std::vector<Bytes> own;
    for (const int member : all.layout.local())
        own.push_back(parts[static_cast<std::size_t>(member)]);
    return all.stage.allgather(all.turn, own);
}

// All parts side by side, node by node.
struct Blocks {
    std::vector<int> order;  // the members, node by node
    std::vector<Bytes> of_hosts;
    Bytes memory;
    bool in_place = true;  // the caller's parts already lie like this
};

Blocks lay_out(const Hierarchy& all, std::span<const Bytes> parts) {
    Blocks blocks;
    std::vector<std::size_t> lengths;
    std::size_t total = 0;
    std::byte* first = nullptr;
    for (const auto& members : all.layout.members) {
        lengths.push_back(0);
        for (const int member : members) {
            blocks.order.push_back(member);
            const Bytes part = parts[static_cast<std::size_t>(member)];
            if (part.empty()) continue;
            if (first == nullptr) first = part.data();
            blocks.in_place = blocks.in_place && part.data() == first + total;
            lengths.back() += part.size();
            total += part.size();
        }
    }
    blocks.memory = blocks.in_place ? Bytes(first, total) : all.scratch.take(total);
    std::size_t at = 0;
    for (const std::size_t length : lengths) {
        blocks.of_hosts.push_back(blocks.memory.subspan(at, length));
        at += length;
    }
    return blocks;
}

}  // namespace

Done allgather_by_leaders(const Hierarchy& all, std::span<const Bytes> parts) {
    constexpr int leader = 0;
    TRY(gather_on_node(all, parts));
    const Blocks blocks = lay_out(all, parts);
    // Calls move() for every part that is not yet at its place.
    const auto for_each_moved = [&](auto move) {
        if (blocks.in_place) return;
        std::size_t at = 0;
        for (const int member : blocks.order) {
            const Bytes part = parts[static_cast<std::size_t>(member)];
            if (!part.empty()) move(member, part, blocks.memory.subspan(at, part.size()));
            at += part.size();
        }
    };
    if (all.layout.leads()) {
        for_each_moved([&](int member, Bytes part, Bytes packed) {
            if (all.layout.host_of(member) != all.layout.own_host) return;
            std::memcpy(packed.data(), part.data(), part.size());
        });
        const auto& algorithm =
            all.choose<Allgather>(total_bytes(std::span<const Bytes>(blocks.of_hosts)));
        TRY(algorithm.run(all.across, blocks.of_hosts));
    }
    TRY(all.stage.broadcast(all.turn, blocks.memory, leader));
    for_each_moved([&](int member, Bytes part, Bytes packed) {
        if (all.layout.host_of(member) == all.layout.own_host) return;
        std::memcpy(part.data(), packed.data(), part.size());
    });
    return {};
}

Done allgather_by_rails(const Hierarchy& all, std::span<const Bytes> parts) {
    const Layout& layout = all.layout;
    TRY(gather_on_node(all, parts));
    const int rails = layout.rails;
    const int rows = (layout.most_local_ranks + rails - 1) / rails;
    const auto part_of = [&](int host, int row, int rail) {
        const auto& members = layout.of_host(host);
        const auto place = static_cast<std::size_t>(row) * static_cast<std::size_t>(rails) +
                           static_cast<std::size_t>(rail);
        return place < members.size() ? parts[static_cast<std::size_t>(members[place])] : Bytes();
    };
    for (int row = 0; row < rows && layout.on_rail(); ++row) {
        std::vector<Bytes> gathered;
        std::size_t bytes = 0;  // of all rails
        for (int host = 0; host < layout.host_count(); ++host) {
            gathered.push_back(part_of(host, row, layout.own_local_rank));
            for (int rail = 0; rail < rails; ++rail)
                bytes += part_of(host, row, rail).size();
        }
        TRY(all.choose<Allgather>(bytes).run(all.across, gathered));
    }
    std::vector<Bytes> shown(static_cast<std::size_t>(layout.local_size()));
    for (int host = 0; host < layout.host_count(); ++host) {
        if (host == layout.own_host) continue;
        for (int row = 0; row * rails < static_cast<int>(layout.of_host(host).size()); ++row) {
            for (int rail = 0; rail < rails; ++rail)
                shown[static_cast<std::size_t>(rail)] = part_of(host, row, rail);
            TRY(all.stage.allgather(all.turn, shown));
        }
    }
    return {};
}

}  // namespace mpi_bridge
