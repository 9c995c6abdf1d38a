// SPDX-License-Identifier: Apache-2.0
#include <map>

#include <gtest/gtest.h>

#include "bootstrap/launch.hpp"
#include "bootstrap/topology.hpp"

namespace {

using mpi_bridge::Launch;
using mpi_bridge::make_topology;

mpi_bridge::Environment environment(std::map<std::string, std::string> variables) {
    return [variables](const char* name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        if (found == variables.end()) return std::nullopt;
        return found->second;
    };
}

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

TEST(Launch, IsAloneWithoutALauncher) {
    EXPECT_EQ(*mpi_bridge::detect_launch(environment({})), Launch::alone);
    // The shell of salloc has the number of tasks but is no task.
    EXPECT_EQ(*mpi_bridge::detect_launch(environment({{"SLURM_NTASKS", "4"}})), Launch::alone);
    EXPECT_EQ(*mpi_bridge::detect_launch(environment(
                  {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "1"}})),
              Launch::alone);
}

TEST(Launch, RefusesToBeOneOfManySingletons) {
    const auto slurm = mpi_bridge::detect_launch(
        environment({{"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}}));
    ASSERT_FALSE(slurm);
    EXPECT_EQ(slurm.error().status, MPIB_ERROR_BOOTSTRAP);
    EXPECT_NE(slurm.error().text.find("srun --mpi=pmix"), std::string::npos);
    EXPECT_FALSE(mpi_bridge::detect_launch(environment({{"PMI_SIZE", "2"}})));
    EXPECT_TRUE(
        mpi_bridge::detect_launch(environment({{"PMI_SIZE", "2"}, {"MPI_BRIDGE_ALONE", "1"}})));
}

TEST(Launch, TakesPmixWhereItIs) {
    EXPECT_EQ(*mpi_bridge::detect_launch(environment({{"PMIX_RANK", "0"},
                                                      {"PMIX_NAMESPACE", "n"},
                                                      {"SLURM_PROCID", "0"},
                                                      {"SLURM_NTASKS", "4"}})),
              Launch::pmix);
}

}  // namespace
