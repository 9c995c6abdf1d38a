// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/topology.hpp"

#include <gtest/gtest.h>

namespace {

using mpi_bridge::make_topology;

TEST(Topology, CountsLocalAndCrossRanksOfUnevenHosts) {
    // Ranks placed round robin on three hosts, the last with one rank.
    const auto topology = make_topology(4, {{2}, {4, 1}, {3, 0, 5}});
    ASSERT_TRUE(topology) << topology.error().text;
    EXPECT_EQ(topology->size, 6);
    EXPECT_EQ(topology->local_rank, 1);
    EXPECT_EQ(topology->local_size, 2);
    EXPECT_EQ(topology->cross_rank, 1);  // host of rank 0 also has a local rank 1
    EXPECT_EQ(topology->cross_size, 2);  // the host of rank 2 has none
    EXPECT_FALSE(topology->homogeneous);
}

TEST(Topology, RefusesARankNamedTwiceOrMissing) {
    EXPECT_FALSE(make_topology(0, {{0, 1}, {1}}));
    EXPECT_FALSE(make_topology(0, {{0}, {2}}));
    EXPECT_FALSE(make_topology(2, {{0}, {1}}));
    EXPECT_FALSE(make_topology(0, {{0, -1}}));
}

}  // namespace
