// SPDX-License-Identifier: GPL-2.0-or-later
#include "admin/nodes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchai::admin {
namespace {

using slurm::NodeBaseState;
using slurm::NodeFlag;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

slurm::NodeStatus node(std::string name, NodeBaseState state, std::vector<std::string> partitions) {
    return {.name = std::move(name),
            .state = state,
            .state_text = "allocated",
            .partitions = std::move(partitions)};
}

std::vector<slurm::NodeStatus> cluster() {
    std::vector<slurm::NodeStatus> nodes{
        node("a1", NodeBaseState::idle, {"all", "main"}),
        node("a2", NodeBaseState::mixed, {"main"}), node("b1", NodeBaseState::idle, {"big"}),
        node("b2", NodeBaseState::allocated, {"big"}), node("b3", NodeBaseState::idle, {"big"})};
    nodes.back().flags.insert(NodeFlag::drain);
    return nodes;
}

TEST(ChooseNodes, GroupsThoseThatCanStartATaskByAPartition) {
    const auto choice = choose_nodes(cluster(), {}, "main");
    ASSERT_TRUE(choice);
    ASSERT_EQ(choice->groups.size(), 2U);
    EXPECT_EQ(choice->groups[0].partition, "big");
    EXPECT_THAT(choice->groups[0].nodes, ElementsAre("b1"));
    EXPECT_EQ(choice->groups[1].partition, "main");
    EXPECT_THAT(choice->groups[1].nodes, ElementsAre("a1", "a2"));
}

TEST(ChooseNodes, SaysOfTheOthersWhyTheyAreNotAsked) {
    const auto choice = choose_nodes(cluster(), {"b2", "b3"}, "");
    ASSERT_TRUE(choice);
    EXPECT_TRUE(choice->groups.empty());
    ASSERT_EQ(choice->left_out.size(), 2U);
    EXPECT_EQ(choice->left_out[0].host, "b2");
    EXPECT_EQ(choice->left_out[0].severity, Severity::unknown);
    EXPECT_THAT(choice->left_out[0].found, HasSubstr("allocated"));
}

TEST(ChooseNodes, ANodeThatSlurmDoesNotHaveIsAnError) {
    const auto choice = choose_nodes(cluster(), {"c1"}, "");
    ASSERT_FALSE(choice);
    EXPECT_THAT(choice.error().what, HasSubstr("\"c1\""));
}

}  // namespace
}  // namespace batchai::admin
