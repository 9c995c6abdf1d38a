// SPDX-License-Identifier: Apache-2.0
//
// Binomial tree broadcast, pipelined. Ranks are renumbered so that the root is 0. The parent of a
// rank is the rank without its lowest set bit; its children are the ranks with one more bit set
// below that bit. Rank 6 of 8 (binary 110) hears from 4 (100) and tells 7 (111).
//
// Data moves in segments. A rank forwards a segment to its children, the one with the deepest
// subtree first, while the next segments are on their way from the parent; `window` segments are
// awaited ahead. The step of a message is the number of its segment.
#include <algorithm>
#include <array>
#include <vector>

#include "collectives/collectives.hpp"

namespace mpi_bridge {
namespace {

constexpr std::size_t window = 4;

struct Tree {
    int parent = -1;  // -1 for the root
    std::vector<int> children;
};

Tree tree_of(int rank, int size, int root) {
    const int place = (rank - root + size) % size;
    const auto rank_at = [&](int where) { return (where + root) % size; };
    Tree tree;
    int reach = 1;  // bits below this one are free for children
    while (reach < size && (place & reach) == 0)
        reach *= 2;
    if (place != 0) tree.parent = rank_at(place - reach);
    for (int bit = reach / 2; bit > 0; bit /= 2) {
        if (place + bit < size) tree.children.push_back(rank_at(place + bit));
    }
    return tree;
}

}  // namespace

Done broadcast_binomial(Conversation& talk, Bytes data, int root) {
    if (talk.size() == 1 || data.empty()) return {};
    const Tree tree = tree_of(talk.rank(), talk.size(), root);
    const std::size_t segment_bytes = talk.segment_bytes();
    const std::size_t segments = (data.size() + segment_bytes - 1) / segment_bytes;
    const auto segment = [&](std::size_t index) {
        const std::size_t at = index * segment_bytes;
        return data.subspan(at, std::min(segment_bytes, data.size() - at));
    };

    std::array<Conversation::Pending, window> incoming{};
    const auto await_ahead = [&](std::size_t index) -> Done {
        if (tree.parent < 0 || index >= segments) return {};
        auto pending = talk.receive(tree.parent, static_cast<std::uint32_t>(index), segment(index));
        if (!pending) return pass_on(std::move(pending));
        incoming[index % window] = *pending;
        return {};
    };
    std::array<std::vector<Conversation::Pending>, window> outgoing;

    for (std::size_t ahead = 0; ahead < window; ++ahead) {
        if (auto done = await_ahead(ahead); !done) return done;
    }
    for (std::size_t index = 0; index < segments; ++index) {
        if (auto done = talk.wait(incoming[index % window]); !done) return done;
        if (auto done = await_ahead(index + window); !done) return done;
        auto& sends = outgoing[index % window];
        if (auto done = talk.wait_all(sends); !done) return done;
        sends.clear();
        for (const int child : tree.children) {
            auto pending = talk.send(child, static_cast<std::uint32_t>(index), segment(index));
            if (!pending) return pass_on(std::move(pending));
            sends.push_back(*pending);
        }
    }
    for (auto& sends : outgoing) {
        if (auto done = talk.wait_all(sends); !done) return done;
    }
    return {};
}

}  // namespace mpi_bridge
