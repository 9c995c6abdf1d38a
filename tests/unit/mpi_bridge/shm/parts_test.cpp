// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <gtest/gtest.h>

#include "shm/even_slice.hpp"
#include "shm/stage_cut.hpp"
#include "shm/usable_cpus.hpp"

namespace {

using mpi_bridge::CpuSet;
using mpi_bridge::even_slice;
using mpi_bridge::is_crowded;
using mpi_bridge::parse_cpu_max;
using mpi_bridge::Slice;
using mpi_bridge::shm::StageCut;

TEST(EvenSlice, CutsEverythingIntoNeighboursOfNearlyEqualLength) {
    for (const std::size_t count : {0UL, 1UL, 6UL, 7UL, 8UL, (1UL << 33) + 5}) {
        for (const int parts : {1, 2, 7, 256}) {
            std::size_t next = 0;
            for (int part = 0; part < parts; ++part) {
                const Slice slice = even_slice(count, parts, part);
                EXPECT_EQ(slice.offset, next);
                EXPECT_LE(slice.length, even_slice(count, parts, 0).length);
                EXPECT_LE(even_slice(count, parts, 0).length, slice.length + 1);
                next += slice.length;
            }
            EXPECT_EQ(next, count);
        }
    }
}

TEST(StageCut, CoversEachItemOnceWithPiecesThatFit) {
    for (const std::size_t count : {0UL, 1UL, 63UL, 64UL, 65UL, 1000UL, 4097UL}) {
        for (const int ranks : {1, 2, 3, 8}) {
            const StageCut cut(count, ranks, 16, 128);
            std::vector<int> covered(count);
            for (int rank = 0; rank < ranks; ++rank) {
                for (std::size_t round = 0; round < cut.rounds(); ++round) {
                    const Slice piece = cut.piece(rank, round);
                    EXPECT_LE(piece.length, 128U);
                    for (std::size_t i = 0; i < piece.length; ++i)
                        ++covered[piece.offset + i];
                }
                EXPECT_EQ(cut.piece(rank, cut.rounds()).length, 0U);
            }
            for (const int times : covered)
                EXPECT_EQ(times, 1);
        }
    }
}

TEST(StageCut, CoversSlicesOfAnyLength) {
    const std::vector<std::size_t> starts = {0, 0, 300, 301, 301, 1000};
    const StageCut cut(starts, 128);
    std::vector<int> covered(starts.back());
    for (int rank = 0; rank < 5; ++rank) {
        const auto place = static_cast<std::size_t>(rank);
        EXPECT_EQ(cut.slice_of(rank).offset, starts[place]);
        EXPECT_EQ(cut.slice_of(rank).length, starts[place + 1] - starts[place]);
        for (std::size_t round = 0; round < cut.rounds(); ++round) {
            const Slice piece = cut.piece(rank, round);
            EXPECT_LE(piece.length, 128U);
            for (std::size_t i = 0; i < piece.length; ++i)
                ++covered[piece.offset + i];
        }
    }
    EXPECT_EQ(covered, std::vector<int>(starts.back(), 1));
}

TEST(StageCut, CountsBeyondThirtyTwoBits) {
    const std::size_t count = (1UL << 34) + 3;
    const StageCut cut(count, 3, 16, 1UL << 15);
    const Slice last = cut.slice_of(2);
    EXPECT_EQ(last.offset + last.length, count);
    const Slice piece = cut.piece(2, cut.rounds() - 1);
    EXPECT_EQ(piece.offset + piece.length, count);
}

CpuSet cpus(std::initializer_list<unsigned> numbers) {
    CpuSet set{};
    for (const unsigned cpu : numbers)
        set.bits[cpu / 64] |= std::uint64_t{1} << (cpu % 64);
    return set;
}

TEST(UsableCpus, FindsThoseOfThisThread) {
    EXPECT_GE(mpi_bridge::usable_cpus().count(), 1);
}

TEST(UsableCpus, CrowdWhenRanksOutnumberThem) {
    const CpuSet two = cpus({0, 70});
    EXPECT_FALSE(is_crowded(two, std::vector{two, two}, {}));
    EXPECT_TRUE(is_crowded(two, std::vector{two, two, two}, {}));
    // Each has one of its own.
    EXPECT_FALSE(is_crowded(cpus({0}), std::vector{cpus({0}), cpus({1})}, {}));
    // Two share one, while the third has many.
    const std::vector uneven = {cpus({0}), cpus({0}), cpus({1, 2, 3})};
    EXPECT_TRUE(is_crowded(uneven[0], uneven, {}));
    EXPECT_FALSE(is_crowded(uneven[2], uneven, {}));
    // There are processors, but no time on them.
    EXPECT_TRUE(is_crowded(two, std::vector{two, two}, 1));
}

TEST(UsableCpus, ReadQuotas) {
    EXPECT_EQ(parse_cpu_max("200000 100000"), 2);
    EXPECT_EQ(parse_cpu_max("50000 100000"), 1);
    EXPECT_EQ(parse_cpu_max("max 100000"), std::nullopt);
    EXPECT_EQ(parse_cpu_max(""), std::nullopt);
    EXPECT_EQ(parse_cpu_max("100000"), std::nullopt);
    EXPECT_EQ(parse_cpu_max("100000 0"), std::nullopt);
}

}  // namespace
