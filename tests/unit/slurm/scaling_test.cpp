// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/scaling.hpp"

#include <algorithm>
#include <array>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slurm/messages.hpp"

namespace batchai::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

NodeStatus node(const std::string& name, NodeBaseState state, std::set<NodeFlag> flags = {},
                std::string reason = {}) {
    NodeStatus status;
    status.name = name;
    status.state = state;
    status.flags = std::move(flags);
    status.reason = std::move(reason);
    return status;
}

NodeStatus off(const std::string& name) {
    return node(name, NodeBaseState::idle, {NodeFlag::powered_down});
}

NodeStatus idle(const std::string& name) {
    return node(name, NodeBaseState::idle);
}

TEST(PowerPlanOf, PowersUpWhatIsOffUpToTheTarget) {
    const ScalingInput input{.nodes = {off("a"), idle("b"), off("c"), idle("d")}};
    const PowerPlan plan = plan_power(input, 3);
    EXPECT_THAT(plan.keep, ElementsAre("a", "b", "d"));
    EXPECT_THAT(plan.up, ElementsAre("a"));
    EXPECT_THAT(plan.down, IsEmpty());
}

TEST(PowerPlanOf, PowersDownIdleNodesBeforeThoseWithJobs) {
    const ScalingInput input{.nodes = {node("a", NodeBaseState::allocated), idle("b"), idle("c")},
                             .jobs = {{{"a"}, false}},
                             .own = {"a", "b", "c"}};
    EXPECT_THAT(plan_power(input, 1).down, ElementsAre("b", "c"));
    EXPECT_THAT(plan_power(input, 0).down, ElementsAre("a", "b", "c"));
}

TEST(PowerPlanOf, LeavesNodesOfOthersAlone) {
    const ScalingInput input{
        .nodes = {idle("a"), idle("b"), off("c"), node("d", NodeBaseState::allocated)},
        .own = {"b", "d"},
        .others = {"a"}};
    const PowerPlan all = plan_power(input, 4);
    EXPECT_THAT(all.keep, ElementsAre("b", "c"));
    EXPECT_THAT(plan_power(input, 0).down, ElementsAre("b"));
}

TEST(PowerPlanOf, ANodeThatDidNotStartIsTriedAgainAndADrainedOneIsNot) {
    const ScalingInput input{
        .nodes = {node("a", NodeBaseState::down, {NodeFlag::powered_down, NodeFlag::not_responding},
                       "ResumeTimeout reached"),
                  node("b", NodeBaseState::idle, {NodeFlag::drain}), idle("c")},
        .own = {"a", "b", "c"}};
    const PowerPlan plan = plan_power(input, 3);
    EXPECT_THAT(plan.keep, ElementsAre("a", "c"));
    EXPECT_THAT(plan.up, ElementsAre("a"));
    EXPECT_THAT(plan_power(input, 0).down, ElementsAre("c"));
}

// Breaks when such a node stays drained for ever.
TEST(PowerPlanOf, MendsNodesThatARestartedSlurmctldHasForgottenToPowerDown) {
    const ScalingInput input{
        .nodes = {node("a", NodeBaseState::idle, {NodeFlag::drain}, "POWER_DOWN_ASAP"),
                  node("b", NodeBaseState::idle, {NodeFlag::drain}, "POWER_DOWN_ASAP")},
        .own = {"a"},
        .leaving = {"b"}};
    EXPECT_THAT(plan_power(input, 0).down, ElementsAre("a", "b"));
    EXPECT_THAT(plan_power(input, 1).usable, ElementsAre("a"));
    EXPECT_THAT(plan_power(input, 1).down, ElementsAre("b"));
    EXPECT_EQ(node_state(input.nodes.front(), NodeUse::none), NodeState::leaving);
}

TEST(PowerPlanOf, WaitsForNodesThatPowerDown) {
    const ScalingInput input{.nodes = {node("a", NodeBaseState::idle, {NodeFlag::powering_down}),
                                       node("b", NodeBaseState::idle, {NodeFlag::power_down})},
                             .own = {"a", "b"}};
    const PowerPlan plan = plan_power(input, 2);
    EXPECT_THAT(plan.waiting, ElementsAre("a", "b"));
    EXPECT_THAT(plan.up, IsEmpty());
}

TEST(Rights, AreThoseOfRootSlurmsUserAndAdministrators) {
    const Configuration configuration{
        {"SuspendProgram", "/x"},      {"ResumeProgram", "/y"},
        {"SlurmUser", "slurm(64030)"}, {"AccountingStorageType", "accounting_storage/slurmdbd"},
        {"SuspendTime", "600 sec"},    {"SuspendTimeout", "30 sec"}};
    const auto nobody = [] { return base::Result<bool>(false); };
    const auto administrator = [] { return base::Result<bool>(true); };
    EXPECT_TRUE(power_rights(configuration, 0, nobody)->allowed);
    EXPECT_TRUE(power_rights(configuration, 64030, nobody)->allowed);
    EXPECT_TRUE(power_rights(configuration, 1001, administrator)->allowed);
    EXPECT_EQ(power_rights(configuration, 1001, nobody)->reason,
              "only an administrator of Slurm may power nodes up and down");
    EXPECT_EQ(power_rights(configuration, 0, nobody)->suspend_timeout, std::chrono::seconds(30));
    const Configuration without{{"SuspendProgram", "(null)"}, {"ResumeProgram", "/y"}};
    EXPECT_EQ(power_rights(without, 0, nobody)->reason,
              "Slurm has no power saving here (SuspendProgram is not set)");
}

TEST(Rights, AnAccountingThatDoesNotAnswerIsNoAnswer) {
    Configuration configuration{{"SuspendProgram", "/x"},
                                {"ResumeProgram", "/y"},
                                {"AccountingStorageType", "accounting_storage/slurmdbd"}};
    const auto silent = []() -> base::Result<bool> { return base::fail("no answer"); };
    EXPECT_FALSE(power_rights(configuration, 1001, silent));
    for (const char* none : {"accounting_storage/none", "(null)"}) {
        configuration["AccountingStorageType"] = none;
        const auto rights = power_rights(configuration, 1001, silent);
        ASSERT_TRUE(rights);
        EXPECT_FALSE(rights->allowed);
    }
}

TEST(Rights, OnlyADenialIsOne) {
    const auto said = [](const char* text) { return denies_permission(refusal("scontrol", text)); };
    EXPECT_TRUE(said("slurm_update error: Invalid user id"));
    EXPECT_TRUE(said("slurm_update error: Access/permission denied"));
    EXPECT_FALSE(said("slurm_update error: Unable to contact slurm controller (connect failure)"));
    EXPECT_FALSE(said("slurm_update error: Invalid node name specified"));
    EXPECT_FALSE(denies_permission({"access/permission denied", {}, {}, {}}));
}

// A partition in an arbitrary state, and a cluster on it.
class RandomCluster {
  public:
    explicit RandomCluster(unsigned seed) : random_(seed) {
        const int count = pick(0, 9);
        for (int i = 0; i < count; ++i)
            input.nodes.push_back(random_node(std::string(1, static_cast<char>('a' + i))));
        for (const NodeStatus& node : input.nodes) {
            if (pick(0, 2) == 0) input.own.insert(node.name);
            if (pick(0, 3) == 0) input.leaving.insert(node.name);
            if (pick(0, 4) == 0) input.others.insert(node.name);
        }
        for (int job = pick(0, 3); job > 0; --job) {
            ClusterJob added{.nodes = {}, .preparing = pick(0, 1) == 0};
            for (const NodeStatus& node : input.nodes) {
                if (pick(0, 2) == 0) added.nodes.push_back(node.name);
            }
            // A node that the partition no longer has.
            if (pick(0, 5) == 0) added.nodes.emplace_back("gone");
            input.jobs.push_back(std::move(added));
        }
        target = pick(0, 10);
    }

    int pick(int least, int most) {
        return std::uniform_int_distribution<int>(least, most)(random_);
    }

    ScalingInput input;
    int target = 0;

  private:
    NodeStatus random_node(const std::string& name) {
        constexpr std::array states{NodeBaseState::unknown, NodeBaseState::down,
                                    NodeBaseState::idle,    NodeBaseState::allocated,
                                    NodeBaseState::mixed,   NodeBaseState::future,
                                    NodeBaseState::idle};
        constexpr std::array flags{
            NodeFlag::completing,  NodeFlag::drain,        NodeFlag::not_responding,
            NodeFlag::power_down,  NodeFlag::powered_down, NodeFlag::powering_down,
            NodeFlag::powering_up, NodeFlag::planned,      NodeFlag::reboot_issued};
        std::set<NodeFlag> chosen;
        for (int i = pick(0, 3); i > 0; --i)
            chosen.insert(flags.at(static_cast<std::size_t>(pick(0, flags.size() - 1))));
        constexpr std::array reasons{"", "POWER_DOWN_ASAP", "ResumeTimeout reached", "disk"};
        return node(name, states.at(static_cast<std::size_t>(pick(0, states.size() - 1))), chosen,
                    reasons.at(static_cast<std::size_t>(pick(0, reasons.size() - 1))));
    }

    std::mt19937 random_;
};

bool contains(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

TEST(AnyClusterView, HasNoCountBelowZeroOrAboveTheTarget) {
    for (unsigned seed = 0; seed < 20000; ++seed) {
        SCOPED_TRACE(seed);
        RandomCluster cluster(seed);
        std::optional<Assignment> assignment;
        if (cluster.pick(0, 1) == 1)
            assignment = Assignment{cluster.input.own, cluster.input.leaving, cluster.input.others};
        const ClusterView view =
            cluster_view(cluster.input.nodes, cluster.input.jobs, cluster.target, assignment);
        const auto& counts = view.counts;
        for (const int number : {counts.idle, counts.running, counts.preparing, counts.leaving,
                                 counts.unusable, view.current_node_count})
            ASSERT_GE(number, 0);
        const int here = counts.idle + counts.running + counts.preparing + counts.unusable;
        ASSERT_LE(here, cluster.target);
        ASSERT_LE(view.current_node_count, cluster.target);
        ASSERT_EQ(here + counts.leaving, static_cast<int>(view.nodes.size()));
        ASSERT_LE(view.nodes.size(), cluster.input.nodes.size());
        // More nodes than the target can only be on their way out.
        if (here + counts.leaving > cluster.target) {
            ASSERT_EQ(view.allocation_state, AllocationState::resizing);
        }
        // No node is counted twice.
        for (std::size_t i = 1; i < view.nodes.size(); ++i)
            ASSERT_LT(view.nodes[i - 1].name, view.nodes[i].name);
    }
}

TEST(AnyPowerPlan, KeepsTheTargetAndTouchesNothingThatIsOthers) {
    for (unsigned seed = 0; seed < 20000; ++seed) {
        SCOPED_TRACE(seed);
        RandomCluster cluster(seed);
        const auto& input = cluster.input;
        const PowerPlan plan = plan_power(input, cluster.target);
        ASSERT_LE(static_cast<int>(plan.keep.size()), cluster.target);
        const auto uses = uses_of(input.jobs);
        for (const std::string& name : plan.down) {
            ASSERT_FALSE(contains(plan.keep, name));
            ASSERT_TRUE(input.own.contains(name) || input.leaving.contains(name) ||
                        uses.contains(name))
                << name;
        }
        for (const auto* list : {&plan.up, &plan.waiting}) {
            for (const std::string& name : *list)
                ASSERT_TRUE(contains(plan.keep, name));
        }
        for (const auto* list : {&plan.keep, &plan.down}) {
            for (const std::string& name : *list)
                ASSERT_FALSE(input.others.contains(name)) << name;
        }
        // A node with a job of the cluster powers down only if all that is kept has one too.
        for (const std::string& name : plan.down) {
            const auto status = std::find_if(input.nodes.begin(), input.nodes.end(),
                                             [&](const auto& node) { return node.name == name; });
            // A node that was to go already goes before those that were to stay.
            if (!uses.contains(name) || was_to_power_down(*status)) continue;
            for (const std::string& kept : plan.keep)
                ASSERT_TRUE(uses.contains(kept)) << name << " goes and " << kept << " stays";
        }
        // The same plan again has nothing to do, once Slurm has done it.
        ScalingInput later = input;
        later.own = {plan.keep.begin(), plan.keep.end()};
        for (NodeStatus& status : later.nodes) {
            if (contains(plan.up, status.name) || contains(plan.waiting, status.name) ||
                contains(plan.usable, status.name)) {
                status.flags.clear();
                status.state = NodeBaseState::idle;
            } else if (contains(plan.down, status.name)) {
                status.flags = {NodeFlag::powered_down};
                status.state = NodeBaseState::idle;
            }
        }
        ASSERT_THAT(plan_power(later, cluster.target).down, IsEmpty());
    }
}

}  // namespace
}  // namespace batchai::slurm
