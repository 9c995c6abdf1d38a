// SPDX-License-Identifier: Apache-2.0
//
// Broadcast as a scatter and an allgather, for long data among many ranks: it takes 2*ceil(log2 n)
// steps, and no rank sends more than twice the data, while the root of a binomial tree sends it
// ceil(log2 n) times. (This is the scheme of van de Geijn, with an allgather of few steps.)
//
// Ranks are renumbered so that the root is 0, and the data is cut into one block per rank. The
// scatter goes down the binomial tree: every rank receives the blocks of its subtree from its
// parent, and sends each child the blocks of the child's subtree. All blocks are received at their
// final place. Then the ranks gather all blocks; see collectives/algorithms/circulant.hpp.
#include "collectives/algorithms/circulant.hpp"
#include "collectives/algorithms/collectives.hpp"
#include "collectives/algorithms/transfer.hpp"
#include "collectives/algorithms/tree.hpp"

namespace mpi_bridge {
namespace {

constexpr std::uint32_t scatter_step = 0;
constexpr std::uint32_t first_gather_step = 1;

Done scatter(Conversation& talk, Bytes data, const Chunks& blocks, int root) {
    const int size = talk.size();
    const Tree tree = binomial_tree(talk.rank(), size, root);
    const auto part_of = [&](int rank) {
        const Slice part = subtree_blocks(wrapped(rank - root, size), blocks);
        return data.subspan(part.offset, part.length);
    };
    if (tree.parent >= 0) {
        const Bytes own = part_of(talk.rank());
        Transfer down;
        down.from = tree.parent;
        down.in = {&own, 1};
        down.step = scatter_step;
        TRY(transfer(talk, down, {}));
    }
    for (const int child : tree.children) {
        const ConstBytes part = part_of(child);
        Transfer down;
        down.to = child;
        down.out = {&part, 1};
        down.step = scatter_step;
        TRY(transfer(talk, down, {}));
    }
    return {};
}

}  // namespace

Done broadcast_scatter_allgather(Conversation& talk, Bytes data, int root) {
    if (talk.size() == 1 || data.empty()) return {};
    const auto blocks = Chunks::even(data.size(), talk.size());
    TRY(scatter(talk, data, blocks, root));
    circulant::Gathering rest;
    rest.data = data.data();
    rest.blocks = blocks;
    rest.first_owner = root;
    rest.first_step = first_gather_step;
    return circulant::allgather(talk, rest);
}

}  // namespace mpi_bridge
