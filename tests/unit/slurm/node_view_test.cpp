// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/node_view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchai::slurm {
namespace {

using ::testing::ElementsAre;

NodeStatus node(const std::string& name, NodeBaseState state, std::set<NodeFlag> flags = {}) {
    NodeStatus status;
    status.name = name;
    status.state = state;
    status.flags = std::move(flags);
    return status;
}

NodeState state_of(NodeBaseState state, std::set<NodeFlag> flags = {},
                   NodeUse use = NodeUse::none) {
    return node_state(node("n", state, std::move(flags)), use);
}

TEST(NodeStateTable, EachRowHolds) {
    EXPECT_EQ(state_of(NodeBaseState::idle), NodeState::idle);
    EXPECT_EQ(state_of(NodeBaseState::idle, {NodeFlag::planned}), NodeState::idle);
    EXPECT_EQ(state_of(NodeBaseState::allocated, {}, NodeUse::running), NodeState::running);
    EXPECT_EQ(state_of(NodeBaseState::mixed, {}, NodeUse::running), NodeState::running);
    EXPECT_EQ(state_of(NodeBaseState::allocated, {}, NodeUse::preparing), NodeState::preparing);
    EXPECT_EQ(state_of(NodeBaseState::allocated, {NodeFlag::powering_up, NodeFlag::not_responding}),
              NodeState::preparing);
    EXPECT_EQ(state_of(NodeBaseState::down, {NodeFlag::reboot_issued}), NodeState::preparing);
    EXPECT_EQ(state_of(NodeBaseState::allocated, {NodeFlag::completing}, NodeUse::running),
              NodeState::leaving);
    EXPECT_EQ(state_of(NodeBaseState::idle, {NodeFlag::powering_down}), NodeState::leaving);
    for (const NodeBaseState bad :
         {NodeBaseState::down, NodeBaseState::unknown, NodeBaseState::error, NodeBaseState::future})
        EXPECT_EQ(state_of(bad), NodeState::unusable);
    for (const NodeFlag bad : {NodeFlag::drain, NodeFlag::fail, NodeFlag::not_responding,
                               NodeFlag::invalid_registration})
        EXPECT_EQ(state_of(NodeBaseState::idle, {bad}), NodeState::unusable);
    EXPECT_EQ(state_of(NodeBaseState::idle, {NodeFlag::powered_down}), NodeState::off);
    EXPECT_EQ(state_of(NodeBaseState::allocated), NodeState::foreign);
}

TEST(ClusterViewOf, NodesWithOurJobsComeFirstThenIdleOnesUpToTheTarget) {
    const std::vector<NodeStatus> nodes{
        node("a", NodeBaseState::idle), node("b", NodeBaseState::down),
        node("c", NodeBaseState::allocated), node("d", NodeBaseState::allocated),
        node("e", NodeBaseState::idle)};
    const ClusterView view = cluster_view(nodes, {{{"d"}, false}}, 2);
    EXPECT_THAT(view.nodes, ElementsAre(ClusterNode{"a", NodeState::idle},
                                        ClusterNode{"d", NodeState::running}));
    EXPECT_EQ(view.counts, (NodeStateCounts{1, 1, 0, 0, 0}));
    EXPECT_EQ(view.current_node_count, 2);
    EXPECT_EQ(view.allocation_state, AllocationState::steady);
}

TEST(ClusterViewOf, UnusableNodesFillOnlyWhatIsLeftOfTheTarget) {
    const std::vector<NodeStatus> nodes{node("a", NodeBaseState::idle),
                                        node("b", NodeBaseState::down)};
    EXPECT_EQ(cluster_view(nodes, {}, 1).counts, (NodeStateCounts{1, 0, 0, 0, 0}));
    const ClusterView both = cluster_view(nodes, {}, 4);
    EXPECT_EQ(both.counts, (NodeStateCounts{1, 0, 0, 0, 1}));
    EXPECT_EQ(both.current_node_count, 1);
}

TEST(ClusterViewOf, AClusterWithMoreBusyNodesThanItsTargetIsResizing) {
    const std::vector<NodeStatus> nodes{node("a", NodeBaseState::allocated),
                                        node("b", NodeBaseState::allocated)};
    const ClusterView view = cluster_view(nodes, {{{"a", "b"}, true}}, 1);
    // The second one leaves the cluster when its job ends.
    EXPECT_EQ(view.counts, (NodeStateCounts{0, 0, 1, 1, 0}));
    EXPECT_EQ(view.current_node_count, 1);
    EXPECT_EQ(view.allocation_state, AllocationState::resizing);
    EXPECT_EQ(cluster_view(nodes, {{{"a", "b"}, true}}, 2).allocation_state,
              AllocationState::steady);
}

TEST(ClusterViewOf, ANodeOnItsWayUpMakesItResizing) {
    const std::vector<NodeStatus> nodes{node("a", NodeBaseState::idle, {NodeFlag::powering_up})};
    EXPECT_EQ(cluster_view(nodes, {}, 1).allocation_state, AllocationState::resizing);
    EXPECT_EQ(cluster_view(nodes, {}, 0).allocation_state, AllocationState::steady);
}

TEST(ClusterViewOf, NodesThatHadToGoLeaveUntilTheyAreOff) {
    const Assignment assignment{.nodes = {"a"}, .leaving = {"b", "c"}};
    const std::vector<NodeStatus> nodes{node("a", NodeBaseState::idle),
                                        node("b", NodeBaseState::idle, {NodeFlag::powering_down}),
                                        node("c", NodeBaseState::idle, {NodeFlag::powered_down})};
    const ClusterView view = cluster_view(nodes, {}, 1, assignment);
    EXPECT_EQ(view.counts, (NodeStateCounts{1, 0, 0, 1, 0}));
    EXPECT_EQ(view.allocation_state, AllocationState::resizing);
}

TEST(ClusterViewOf, NodesThatCannotBeUsedAreNamed) {
    NodeStatus bad = node("b", NodeBaseState::down, {NodeFlag::powered_down});
    bad.reason = "ResumeTimeout reached";
    const Assignment assignment{.nodes = {"a", "b"}};
    const ClusterView view = cluster_view({node("a", NodeBaseState::idle), bad}, {}, 2, assignment);
    EXPECT_THAT(view.unusable,
                ElementsAre(ClusterNode{"b", NodeState::unusable, "ResumeTimeout reached", true}));
    EXPECT_EQ(view.counts, (NodeStateCounts{1, 0, 0, 0, 1}));
}

TEST(AutoscaleTarget, StaysWithinItsBounds) {
    EXPECT_EQ(autoscale_target(1, 4, 0), 1);
    EXPECT_EQ(autoscale_target(1, 4, 3), 3);
    EXPECT_EQ(autoscale_target(1, 4, 9), 4);
}

}  // namespace
}  // namespace batchai::slurm
