// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/elastic.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchai::run {

namespace {

using slurm::NodeBaseState;
using slurm::NodeFlag;
using testing::ElementsAre;

slurm::NodeStatus node(const std::string& name, NodeBaseState state,
                       std::set<NodeFlag> flags = {}) {
    slurm::NodeStatus status;
    status.name = name;
    status.state = state;
    status.flags = std::move(flags);
    return status;
}

}  // namespace

TEST(Survivors, AreTheJobsNodesThatCanStartTasks) {
    slurm::JobStatus job;
    job.nodes = {"n1", "n2", "n3", "n4", "n5"};
    const std::vector<slurm::NodeStatus> statuses{
        node("n1", NodeBaseState::allocated), node("n2", NodeBaseState::down),
        node("n3", NodeBaseState::allocated, {NodeFlag::not_responding}),
        node("n4", NodeBaseState::mixed, {NodeFlag::drain}), node("n6", NodeBaseState::allocated)};
    // n5 is unknown to Slurm, n6 has been taken from the job.
    EXPECT_THAT(survivors({"n4", "n1", "n2", "n3", "n5", "n6"}, job, statuses),
                ElementsAre("n4", "n1"));
}

TEST(ShrunkStep, KeepsTheProcessesOfANode) {
    plan::Step step;
    step.processes = 7;
    step.processes_per_node = 2;
    EXPECT_EQ(shrunk(step, 3).processes, 6);
    EXPECT_EQ(shrunk(step, 4).processes, 7);
    EXPECT_EQ(shrunk(step, 3).processes_per_node, 2);
}

}  // namespace batchai::run
