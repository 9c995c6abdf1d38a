// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/tree.hpp"

#include <algorithm>
#include <array>

namespace mpi_bridge {
namespace {

constexpr std::size_t tree_window = 4;

}  // namespace

Tree binomial_tree(int rank, int size, int root) {
    const int place = wrapped(rank - root, size);
    const auto rank_at = [&](int where) { return wrapped(where - size + root, size); };
    Tree tree;
    long reach = 1;  // the bits below this one are free for children
    while (reach < size && (place & reach) == 0)
        reach *= 2;
    if (place != 0) tree.parent = rank_at(static_cast<int>(place - reach));
    for (long bit = reach / 2; bit > 0; bit /= 2) {
        if (place + bit < size) tree.children.push_back(rank_at(static_cast<int>(place + bit)));
    }
    return tree;
}

Slice subtree_blocks(int number, const Chunks& blocks) {
    const int lowest_bit = number & -number;
    const bool to_the_end = number == 0 || lowest_bit >= blocks.count() - number;
    return blocks.range(number, to_the_end ? blocks.count() : number + lowest_bit);
}

Tree chain(int rank, int size, int root) {
    const int place = wrapped(rank - root, size);
    Tree tree;
    if (place != 0) tree.parent = wrapped(rank - 1, size);
    if (place != size - 1) tree.children.push_back(wrapped(rank - size + 1, size));
    return tree;
}

Done broadcast_down(Conversation& talk, Bytes data, const Tree& tree) {
    const std::size_t segment_bytes = pipeline_segment(data.size(), talk.segment_bytes());
    const std::size_t segments =
        data.size() / segment_bytes + (data.size() % segment_bytes == 0 ? 0 : 1);
    const auto segment = [&](std::size_t index) {
        const std::size_t at = index * segment_bytes;
        return data.subspan(at, std::min(segment_bytes, data.size() - at));
    };
    std::array<Conversation::Pending, tree_window> incoming{};
    const auto await_ahead = [&](std::size_t index) -> Done {
        if (tree.parent < 0 || index >= segments) return {};
        incoming[index % tree_window] =
            TRY(talk.receive(tree.parent, static_cast<std::uint32_t>(index), segment(index)));
        return {};
    };
    std::array<std::vector<Conversation::Pending>, tree_window> outgoing;

    for (std::size_t ahead = 0; ahead < tree_window; ++ahead)
        TRY(await_ahead(ahead));
    for (std::size_t index = 0; index < segments; ++index) {
        TRY(talk.wait(incoming[index % tree_window]));
        TRY(await_ahead(index + tree_window));
        auto& sends = outgoing[index % tree_window];
        TRY(talk.wait_all(sends));
        sends.clear();
        for (const int child : tree.children) {
            sends.push_back(
                TRY(talk.send(child, static_cast<std::uint32_t>(index), segment(index))));
        }
    }
    for (auto& sends : outgoing)
        TRY(talk.wait_all(sends));
    return {};
}

}  // namespace mpi_bridge
