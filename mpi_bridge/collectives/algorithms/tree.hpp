// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "collectives/chunks.hpp"
#include "collectives/conversation.hpp"

namespace mpi_bridge {

// This rank's place in a tree of all ranks.
struct Tree {
    int parent = -1;            // -1 for the root
    std::vector<int> children;  // ordered so that the largest subtree is first
};

// Ranks are renumbered so that the root is 0. The parent of a rank is the rank without its lowest
// set bit; its children are the ranks with one more bit set below that bit. Rank 6 of 8 (binary
// 110) has the parent 4 (100) and the child 7 (111). A subtree is a range of consecutive numbers.
[[nodiscard]] Tree binomial_tree(int rank, int size, int root);

// The blocks of the subtree under the rank with that number, including itself, if there is one
// block per number.
[[nodiscard]] Slice subtree_blocks(int number, const Chunks& blocks);

// Every rank has the one after it as its only child.
[[nodiscard]] Tree chain(int rank, int size, int root);

// The length of a segment of a pipeline for that much data. Sixteen segments hide most of what the
// hops add to the time, and shorter ones than 32 KiB cost more in messages than they hide.
[[nodiscard]] constexpr std::size_t pipeline_segment(std::size_t bytes, std::size_t longest) {
    constexpr std::size_t least = 32UL * 1024;
    return std::min(longest, std::max(least, bytes / 16));
}

// Sends the root's data down the tree in a pipeline: data moves in segments, and a rank forwards a
// segment to its children while the next ones are on their way from the parent. Several receives
// are posted ahead. The step of a message is the number of its segment.
[[nodiscard]] Done broadcast_down(Conversation& talk, Bytes data, const Tree& tree);

}  // namespace mpi_bridge
