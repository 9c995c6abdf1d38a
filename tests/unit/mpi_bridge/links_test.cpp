// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "tools/links/pairs.hpp"

namespace {

using mpi_bridge::links::partner_in;
using mpi_bridge::links::rounds_of;

// Breaks when two ranks of a pair do not name each other, so that both wait for ever.
TEST(Pairs, MeetOnceAndNameEachOther) {
    for (int ranks = 2; ranks <= 33; ++ranks) {
        std::set<std::pair<int, int>> met;
        for (int round = 0; round < rounds_of(ranks); ++round) {
            for (int rank = 0; rank < ranks; ++rank) {
                const auto partner = partner_in(round, rank, ranks);
                if (!partner) continue;
                ASSERT_NE(*partner, rank);
                ASSERT_EQ(partner_in(round, *partner, ranks), rank) << ranks << ' ' << round;
                if (rank > *partner) continue;
                EXPECT_TRUE(met.emplace(rank, *partner).second) << ranks << ' ' << round;
            }
        }
        EXPECT_EQ(met.size(), static_cast<std::size_t>(ranks * (ranks - 1) / 2)) << ranks;
    }
}

}  // namespace
