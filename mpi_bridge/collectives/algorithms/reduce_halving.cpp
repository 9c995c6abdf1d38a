// SPDX-License-Identifier: Apache-2.0
//
// Reduce by halving, for long vectors: a reduce-scatter, after which every rank has the results of
// one block of the vector, and a gather of the blocks at the root. This takes 2*ceil(log2 n) steps,
// and no rank sends or receives more than twice the vector, while a binomial tree reduce transfers
// it ceil(log2 n) times, one after the other.
//
// The gather goes up the binomial tree (see collectives/algorithms/tree.hpp): ranks are renumbered
// so that the root is 0, a subtree is a range of consecutive numbers, and every rank sends its
// parent the blocks of its whole subtree. A rank's block has the rank's number, so that these
// blocks lie side by side in the vector; the root receives them at their final place.
//
// The gather moves finished values. The reduce-scatter, and the order of its additions, is
// described in collectives/algorithms/circulant.hpp.
#include <algorithm>

#include "collectives/algorithms/circulant.hpp"
#include "collectives/algorithms/collectives.hpp"
#include "collectives/algorithms/transfer.hpp"
#include "collectives/algorithms/tree.hpp"

namespace mpi_bridge {
namespace {

// Receives the children's blocks into `memory`, which starts with block `first`, and sends them to
// the parent together with this rank's own block, which is already there.
struct BlockGather {
    Bytes memory;
    std::size_t first_item = 0;
    std::size_t item_bytes = 1;
    Chunks blocks;
    int root = 0;
    std::uint32_t step = 0;
};

Done gather(Conversation& talk, const BlockGather& what) {
    const Tree tree = binomial_tree(talk.rank(), talk.size(), what.root);
    const auto part_of = [&](int rank) {
        const Slice part = subtree_blocks(wrapped(rank - what.root, talk.size()), what.blocks);
        return what.memory.subspan((part.offset - what.first_item) * what.item_bytes,
                                   part.length * what.item_bytes);
    };
    for (const int child : tree.children) {
        const Bytes part = part_of(child);
        Transfer up;
        up.from = child;
        up.in = {&part, 1};
        up.step = what.step;
        TRY(transfer(talk, up, {}));
    }
    if (tree.parent < 0) return {};
    const ConstBytes part = part_of(talk.rank());
    Transfer up;
    up.to = tree.parent;
    up.out = {&part, 1};
    up.step = what.step;
    return transfer(talk, up, {});
}

}  // namespace

Done reduce_halving(Conversation& talk, const Reducer& reducer, const std::byte* send,
                    std::byte* recv, std::size_t count, int root) {
    if (reduced_alone(talk, reducer, send, recv, count)) return {};
    const auto blocks = Chunks::even(count, talk.size());
    const int number = wrapped(talk.rank() - root, talk.size());
    const Slice subtree = subtree_blocks(number, blocks);
    circulant::Scattering whole;
    whole.send = send;
    whole.blocks = blocks;
    whole.first_owner = root;
    whole.spare_bytes = number == 0 ? 0 : subtree.length * reducer.value_bytes();
    const auto reduced = TRY(circulant::reduce_scatter(talk, reducer, whole));

    BlockGather rest;
    rest.memory = number == 0 ? Bytes(recv, count * reducer.value_bytes()) : reduced.spare;
    rest.first_item = subtree.offset;
    rest.item_bytes = reducer.value_bytes();
    rest.blocks = blocks;
    rest.root = root;
    rest.step = static_cast<std::uint32_t>(circulant::widths(talk.size()).size());
    const std::size_t own_items = blocks[number].length;
    reducer.store(rest.memory.data(), reduced.accumulators, own_items, talk.size());
    return gather(talk, rest);
}

}  // namespace mpi_bridge
