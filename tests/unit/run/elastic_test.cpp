// SPDX-License-Identifier: GPL-2.0-or-later
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/again/hosts.hpp"

namespace batchai::run {

namespace {

using record::HostsChange;
using slurm::NodeBaseState;
using slurm::NodeFlag;
using testing::ElementsAre;
using testing::IsEmpty;

slurm::NodeStatus node(const std::string& name, NodeBaseState state,
                       std::set<NodeFlag> flags = {}) {
    slurm::NodeStatus status;
    status.name = name;
    status.state = state;
    status.flags = std::move(flags);
    return status;
}

// A job that has begun with four nodes and has them all.
struct Cluster {
    Hosts hosts{.granted = {"n1", "n2", "n3", "n4"},
                .place = {"n1", "n2", "n3", "n4"},
                .unfit = {},
                .wanted = {},
                .least = 2,
                .leaves_drained = false};
    SlurmsView view;

    Cluster() {
        view.job.nodes = hosts.granted;
        for (const std::string& name : hosts.granted)
            view.nodes.push_back(node(name, NodeBaseState::allocated));
    }
    slurm::NodeStatus& operator[](std::size_t number) { return view.nodes[number - 1]; }
    void lose(const std::string& name) { std::erase(view.job.nodes, name); }
};

}  // namespace

TEST(Survivors, AreTheJobsNodesThatCanStartTasks) {
    SlurmsView view;
    view.job.nodes = {"n1", "n2", "n3", "n4", "n5"};
    view.nodes = {node("n1", NodeBaseState::allocated), node("n2", NodeBaseState::down),
                  node("n3", NodeBaseState::allocated, {NodeFlag::not_responding}),
                  node("n4", NodeBaseState::mixed, {NodeFlag::drain}),
                  node("n6", NodeBaseState::allocated)};
    // n5 is unknown to Slurm, n6 has been taken from the job.
    EXPECT_THAT(survivors({"n4", "n1", "n2", "n3", "n5", "n6"}, view), ElementsAre("n4", "n1"));
}

TEST(Taken, AreHealthyNodesThatTheJobNoLongerHas) {
    Cluster job;
    job.lose("n3");
    job.lose("n4");
    job[4].state = NodeBaseState::down;
    EXPECT_THAT(taken(job.hosts.place, job.view), ElementsAre("n3"));
}

TEST(ShrunkStep, KeepsTheProcessesOfANode) {
    plan::Step step;
    step.processes = 7;
    step.processes_per_node = 2;
    EXPECT_EQ(shrunk(step, 3).processes, 6);
    EXPECT_EQ(shrunk(step, 4).processes, 7);
    EXPECT_EQ(shrunk(step, 3).processes_per_node, 2);
}

TEST(NextStart, HasAllNodesThatAreFit) {
    Cluster job;
    job.hosts.place = {"n1", "n2"};
    job.hosts.unfit = {"n3"};
    const Decision next = decide(job.hosts, job.view);
    EXPECT_THAT(next.nodes, ElementsAre("n1", "n2", "n4"));
    EXPECT_THAT(next.give_back, IsEmpty());
}

// Breaks when ranks that could stay where they are move, or when a spare node is not used.
TEST(NextStart, TakesASpareNodeOnlyForOneThatIsLost) {
    Cluster job;
    job.hosts.most = 2;
    job.hosts.place = {"n1", "n3"};
    EXPECT_THAT(decide(job.hosts, job.view).nodes, ElementsAre("n1", "n3"));
    EXPECT_THAT(decide(job.hosts, job.view).spares, ElementsAre("n2", "n4"));
    job.lose("n1");
    EXPECT_THAT(decide(job.hosts, job.view).nodes, ElementsAre("n2", "n3"));
    EXPECT_THAT(decide(job.hosts, job.view).spares, ElementsAre("n4"));
    job.hosts.unfit = {"n2", "n3"};
    EXPECT_THAT(decide(job.hosts, job.view).nodes, ElementsAre("n4"));
}

TEST(NextStart, GivesBackWhatTheUserDoesNotWant) {
    Cluster job;
    job.hosts.wanted = 2;
    // It would be of no use to keep the node that fails.
    job[2].flags = {NodeFlag::fail};
    const Decision next = decide(job.hosts, job.view);
    EXPECT_THAT(next.nodes, ElementsAre("n1", "n3"));
    EXPECT_THAT(next.give_back, ElementsAre("n2", "n4"));
    job.hosts.wanted = 4;
    EXPECT_THAT(decide(job.hosts, job.view).give_back, IsEmpty());
}

// Breaks when the job loses nodes that its user did not give up.
TEST(NextStart, GivesBackNoMoreThanTheUserWants) {
    Cluster job;
    job.hosts.wanted = 3;
    job[2].flags = job[4].flags = {NodeFlag::not_responding};
    const Decision next = decide(job.hosts, job.view);
    EXPECT_THAT(next.nodes, ElementsAre("n1", "n3"));
    EXPECT_THAT(next.give_back, ElementsAre("n2"));
}

TEST(NextStart, LeavesDrainedNodesOnlyIfTheJobConsents) {
    Cluster job;
    for (const std::size_t number : {1U, 3U, 4U})
        job[number].flags = {NodeFlag::drain};
    EXPECT_THAT(decide(job.hosts, job.view).nodes, ElementsAre("n1", "n2", "n3", "n4"));
    job.hosts.leaves_drained = true;
    Decision next = decide(job.hosts, job.view);
    EXPECT_THAT(next.nodes, ElementsAre("n1", "n2")) << "the first node has the batch script";
    EXPECT_THAT(next.give_back, ElementsAre("n3", "n4"));
    job.hosts.least = 3;
    next = decide(job.hosts, job.view);
    EXPECT_THAT(next.nodes, ElementsAre("n1", "n2", "n4"));
    EXPECT_THAT(next.give_back, ElementsAre("n3"));
}

TEST(DueChange, IsNoneWhileNothingHappens) {
    Cluster job;
    EXPECT_TRUE(due_for(job.hosts, job.view).empty());
    job[4].flags = {NodeFlag::drain};
    EXPECT_TRUE(due_for(job.hosts, job.view).empty());
}

TEST(DueChange, LeavesWhatFailsAndTakesWhatIsBack) {
    Cluster job;
    job[2].flags = {NodeFlag::fail};
    Difference due = due_for(job.hosts, job.view);
    EXPECT_EQ(due.change(), HostsChange::removed);
    EXPECT_EQ(due.text(), "n2 leaves");
    job.hosts.place = {"n1", "n2"};
    due = due_for(job.hosts, job.view);
    EXPECT_EQ(due.change(), HostsChange::mixed);
    EXPECT_EQ(due.text(), "n2 leaves; n3, n4 are back");
    job[2].flags = {};
    due = due_for(job.hosts, job.view);
    EXPECT_EQ(due.change(), HostsChange::added);
    EXPECT_EQ(due.text(), "n3, n4 are back");
}

// Breaks when ranks that run well are ended because the controller cannot reach a node, or when
// they would have too few nodes afterwards.
TEST(DueChange, IsNotForTheLossOfNodes) {
    Cluster job;
    job[2].flags = {NodeFlag::not_responding};
    job[3].state = NodeBaseState::down;
    EXPECT_TRUE(due_for(job.hosts, job.view).empty());
    job[3].state = NodeBaseState::allocated;
    job.lose("n3");
    EXPECT_TRUE(due_for(job.hosts, job.view).empty());
    Cluster failing;
    failing.hosts.least = 4;
    failing[4].flags = {NodeFlag::fail};
    EXPECT_TRUE(due_for(failing.hosts, failing.view).empty());
    failing.hosts.least = 1;
    failing[4].flags = {};
    failing[1].flags = {NodeFlag::fail};
    EXPECT_TRUE(due_for(failing.hosts, failing.view).empty()) << "this program runs there";
}

}  // namespace batchai::run
