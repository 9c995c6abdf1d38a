// SPDX-License-Identifier: Apache-2.0
//
// Binomial tree reduce, for short vectors: ceil(log2 n) steps, where each message is the whole
// vector. Every rank merges the vectors of its children into its own, beginning with the smallest
// subtree, and sends the result to its parent; the root stores it. The tree, and with it the bits
// of the result, depends only on the number of ranks and on the root. See
// collectives/algorithms/tree.hpp.
//
// Vectors travel as accumulators (see reduce/reduction.hpp), so the result is rounded once.
#include <algorithm>

#include "collectives/algorithms/collectives.hpp"
#include "collectives/algorithms/transfer.hpp"
#include "collectives/algorithms/tree.hpp"

namespace mpi_bridge {

Done reduce_binomial(Conversation& talk, const Reducer& reducer, const std::byte* send,
                     std::byte* recv, std::size_t count, int root) {
    if (reduced_alone(talk, reducer, send, recv, count)) return {};
    Tree tree = binomial_tree(talk.rank(), talk.size(), root);
    std::reverse(tree.children.begin(), tree.children.end());
    const std::size_t bytes = count * reducer.accumulator_bytes();
    const Bytes memory = talk.scratch().take(tree.children.empty() ? bytes : 2 * bytes);
    const Bytes mine = memory.first(bytes);
    const Bytes theirs = memory.subspan(bytes);
    reducer.load(mine.data(), send, count);

    for (const int child : tree.children) {
        Transfer up;
        up.from = child;
        up.in = {&theirs, 1};
        up.item_bytes = reducer.accumulator_bytes();
        auto done = transfer(talk, up, [&](std::size_t /*run*/, std::size_t offset, Bytes segment) {
            std::byte* result = mine.data() + offset;
            reducer.merge(result, result, segment.data(), segment.size() / up.item_bytes);
        });
        if (!done) return done;
    }
    if (tree.parent < 0) {
        reducer.store(recv, mine.data(), count, talk.size());
        return {};
    }
    const ConstBytes partial = mine;
    Transfer up;
    up.to = tree.parent;
    up.out = {&partial, 1};
    up.item_bytes = reducer.accumulator_bytes();
    return transfer(talk, up, {});
}

}  // namespace mpi_bridge
