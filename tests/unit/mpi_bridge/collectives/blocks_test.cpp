// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "collectives/algorithms/circulant.hpp"
#include "collectives/algorithms/ring.hpp"
#include "collectives/algorithms/tree.hpp"

namespace {

using mpi_bridge::Chunks;
using mpi_bridge::Slice;

std::size_t end_of(const Slice& slice) {
    return slice.offset + slice.length;
}

TEST(Chunks, DifferByOneAndCoverBeyondFourGigaitems) {
    constexpr std::size_t count = (std::size_t{1} << 33) + 5;
    const auto chunks = Chunks::even(count, 7);
    std::size_t at = 0;
    for (int number = 0; number < 7; ++number) {
        const Slice chunk = chunks[number];
        EXPECT_EQ(chunk.offset, at);
        EXPECT_GE(chunk.length, count / 7);
        EXPECT_LE(chunk.length, count / 7 + 1);
        at = end_of(chunk);
    }
    EXPECT_EQ(at, count);
}

TEST(Chunks, FollowEachOtherWhateverTheirLengths) {
    const auto chunks = Chunks::of(std::vector<std::size_t>{3, 0, 5});
    EXPECT_EQ(chunks.count(), 3);
    EXPECT_EQ(chunks.longest(), 5U);
    EXPECT_EQ(chunks[1].length, 0U);
    EXPECT_EQ(chunks[2].offset, 3U);
    EXPECT_EQ(end_of(chunks[2]), chunks.start(3));
}

TEST(RingCut, VisitsEveryItemOnceInSegmentsNoLongerThanAsked) {
    for (const std::size_t count : {0UL, 1UL, 40UL, 41UL, 1000UL}) {
        const auto chunks = Chunks::even(count, 3);
        const mpi_bridge::ring::Cut cut(chunks, 10);
        for (int number = 0; number < 3; ++number) {
            const Slice chunk = chunks[number];
            std::size_t at = chunk.offset;
            for (std::size_t round = 0; round < cut.rounds(); ++round) {
                for (std::size_t track = 0; track < mpi_bridge::ring::tracks; ++track) {
                    const Slice segment = cut.segment(round, number, track);
                    EXPECT_EQ(segment.offset, at);
                    EXPECT_LE(segment.length, cut.longest());
                    at = end_of(segment);
                }
            }
            EXPECT_EQ(at, end_of(chunk));
        }
    }
}

TEST(RingCut, GivesEveryTrackASegmentUnlessThatMakesThemTooShort) {
    const auto longest = [](std::size_t chunk_bytes) {
        return mpi_bridge::ring::cut_for(Chunks::even(chunk_bytes, 1), 1, 256 * 1024).longest();
    };
    EXPECT_EQ(longest(1000), 1000U);
    EXPECT_EQ(longest(100 * 1024), 32U * 1024);
    EXPECT_EQ(longest(400 * 1024), 100U * 1024);
    EXPECT_EQ(longest(4000 * 1024), 256U * 1024);
}

TEST(Circulant, HalvesTheWidthRoundingUp) {
    EXPECT_EQ(mpi_bridge::circulant::widths(1), std::vector<int>({1}));
    EXPECT_EQ(mpi_bridge::circulant::widths(5), std::vector<int>({5, 3, 2, 1}));
    EXPECT_EQ(mpi_bridge::circulant::widths(16), std::vector<int>({16, 8, 4, 2, 1}));
    EXPECT_EQ(mpi_bridge::circulant::widths(10000).size(), 15U);
}

TEST(Chunks, SplitAWindowWhereTheVectorEnds) {
    const auto blocks = Chunks::even(10, 4);  // 3, 3, 2, 2
    const auto inside = blocks.window(1, 3);
    EXPECT_EQ(inside.first.offset, 3U);
    EXPECT_EQ(inside.first.length, 7U);
    EXPECT_EQ(inside.second.length, 0U);
    const auto over = blocks.window(3, 3);
    EXPECT_EQ(over.first.offset, 8U);
    EXPECT_EQ(over.first.length, 2U);
    EXPECT_EQ(over.second.offset, 0U);
    EXPECT_EQ(over.second.length, 6U);
}

TEST(BinomialTree, HasEveryRankUnderOneParentAndItsSubtreesSideBySide) {
    for (const int size : {1, 2, 3, 7, 16, 21}) {
        for (const int root : {0, size - 1}) {
            const auto blocks = Chunks::even(static_cast<std::size_t>(size), size);
            int children = 0;
            for (int rank = 0; rank < size; ++rank) {
                const auto tree = mpi_bridge::binomial_tree(rank, size, root);
                EXPECT_EQ(tree.parent < 0, rank == root);
                const auto number = [&](int which) {
                    return mpi_bridge::wrapped(which - root, size);
                };
                const Slice own = mpi_bridge::subtree_blocks(number(rank), blocks);
                std::size_t length = 1;
                for (const int child : tree.children) {
                    EXPECT_EQ(mpi_bridge::binomial_tree(child, size, root).parent, rank);
                    length += mpi_bridge::subtree_blocks(number(child), blocks).length;
                    ++children;
                }
                EXPECT_EQ(own.length, length);
            }
            EXPECT_EQ(children, size - 1);
        }
    }
}

}  // namespace
