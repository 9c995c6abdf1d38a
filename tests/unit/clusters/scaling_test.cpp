// SPDX-License-Identifier: GPL-2.0-or-later
#include "clusters/scaling.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.hpp"
#include "base/timestamp.hpp"
#include "tests/unit/base/scratch.hpp"

namespace batchai::clusters {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

// Slurm is a script that agrees to everything, and keeps what it is told in "told".
class Following : public testing::Test {
  protected:
    void SetUp() override {
        fs::create_directories(scratch_.path() / "bin");
        const fs::path script = scratch_.path() / "bin/scontrol";
        std::ofstream(script) << "#!/bin/sh\necho \"$@\" >> '" << told_.string() << "'\n";
        fs::permissions(script, fs::perms::owner_all);
        old_path_ = std::getenv("PATH");
        setenv("PATH", (scratch_.path().string() + "/bin:" + old_path_).c_str(), 1);
        ASSERT_TRUE(store_.create(store::Group{{"g"}, "here", {}, base::now()}));
        ASSERT_TRUE(store_.create(store::Workspace{{"g", "w"}, "here", {}, base::now()}));
    }
    void TearDown() override { setenv("PATH", old_path_.c_str(), 1); }

    store::ClusterKey add(const std::string& name, int target) const {
        store::Cluster cluster;
        cluster.key = {"g", "w", name};
        cluster.scale.manual->target_node_count = target;
        cluster.creation_time = base::now();
        EXPECT_TRUE(store_.create(cluster));
        return cluster.key;
    }
    [[nodiscard]] std::string told() const { return base::read_file(told_).value_or(""); }
    static status::TaskView task(int number, const std::string& array, slurm::JobState state) {
        status::TaskView view;
        view.number = number;
        view.evidence.slurm.emplace();
        view.evidence.slurm->state = state;
        view.evidence.slurm->array_id = array;
        view.state = state == slurm::JobState::pending ? slurm::ExecutionState::queued
                                                       : slurm::ExecutionState::running;
        return view;
    }
    static ScalingView two_idle_nodes() {
        ScalingView view;
        view.rights.allowed = true;
        for (const char* const name : {"n1", "n2"}) {
            slurm::NodeStatus node;
            node.name = name;
            node.state = slurm::NodeBaseState::idle;
            view.input.nodes.push_back(node);
        }
        return view;
    }

    Scratch scratch_;
    fs::path told_ = scratch_.path() / "told";
    store::Store store_{scratch_.path() / "home"};
    slurm::Client slurm_;
    std::string old_path_;
};

// Breaks when two commands that have asked Slurm at the same time take the same nodes.
TEST_F(Following, ATargetTakesNoNodeThatAnotherClusterHasTakenSinceSlurmWasAsked) {
    const auto first = add("first", 1);
    const auto second = add("second", 1);
    const auto of_first = follow_target(store_, slurm_, first, two_idle_nodes());
    ASSERT_TRUE(of_first) << of_first.error().text();
    EXPECT_THAT(of_first->cluster.nodes, ElementsAre("n1"));
    const auto of_second = follow_target(store_, slurm_, second, two_idle_nodes());
    ASSERT_TRUE(of_second) << of_second.error().text();
    EXPECT_THAT(of_second->cluster.nodes, ElementsAre("n2"));
}

// Breaks when a command that has asked Slurm before another one no longer knows that a node is the
// cluster's, and leaves it on for ever.
TEST_F(Following, ATargetPowersDownNodesThatTheClusterHasTakenSinceSlurmWasAsked) {
    const auto key = add("c", 2);
    ASSERT_TRUE(follow_target(store_, slurm_, key, two_idle_nodes()));
    ASSERT_TRUE(store_.update<store::Cluster>(
        key, [](store::Cluster& record) { record.scale.manual->target_node_count = 1; }));
    const auto shrunk = follow_target(store_, slurm_, key, two_idle_nodes());
    ASSERT_TRUE(shrunk) << shrunk.error().text();
    EXPECT_THAT(shrunk->cluster.nodes, ElementsAre("n1"));
    EXPECT_THAT(shrunk->cluster.leaving, ElementsAre("n2"));
}

// Breaks when only the first array of a job is held, or only a job of which nothing has started.
TEST_F(Following, AnArrayIsHeldWhoseTasksWaitForMoreNodesThanTheTarget) {
    const auto key = add("c", 1);
    ScalingView view;
    status::JobView& job = view.job_views.emplace_back();
    job.job.set_cluster(key);
    job.job.slurm_job_id = "20";
    job.job.is_array = true;
    job.job.node_count = 2;
    job.state = slurm::ExecutionState::running;
    job.tasks = {task(1, "20", slurm::JobState::running), task(2, "30", slurm::JobState::pending),
                 task(3, "30", slurm::JobState::pending)};
    job.evidence = job.tasks[0].evidence;
    const auto followed = follow_target(store_, slurm_, key, view);
    ASSERT_TRUE(followed) << followed.error().text();
    EXPECT_EQ(told(), "uhold 30\n");
    EXPECT_THAT(followed->cluster.held_jobs, ElementsAre("30"));
    // The cluster grows.
    job.tasks[1].evidence.slurm->reason = "JobHeldUser";
    job.tasks[2].evidence.slurm->reason = "JobHeldUser";
    ASSERT_TRUE(store_.update<store::Cluster>(
        key, [](store::Cluster& record) { record.scale.manual->target_node_count = 2; }));
    const auto grown = follow_target(store_, slurm_, key, view);
    ASSERT_TRUE(grown) << grown.error().text();
    EXPECT_EQ(told(), "uhold 30\nrelease 30\n");
    EXPECT_TRUE(grown->cluster.held_jobs.empty());
}

}  // namespace
}  // namespace batchai::clusters
