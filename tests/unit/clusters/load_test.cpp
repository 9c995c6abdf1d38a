// SPDX-License-Identifier: GPL-2.0-or-later
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "clusters/view.hpp"

namespace batchai::clusters {
namespace {

using slurm::ExecutionState;

const store::ClusterKey cluster{"g", "w", "c"};

status::JobView job(int nodes, const std::string& array, const std::vector<ExecutionState>& tasks) {
    status::JobView view;
    view.job.set_cluster(cluster);
    view.job.node_count = nodes;
    view.job.is_array = !array.empty();
    view.job.array = array;
    for (const ExecutionState state : tasks) {
        status::TaskView task;
        task.number = static_cast<int>(view.tasks.size());
        task.state = state;
        view.tasks.push_back(task);
    }
    return view;
}

// Breaks when nodes are powered up for tasks that the array's own limit keeps from starting.
TEST(Load, OfAnArrayIsThatOfTheTasksThatMayRunAtOnce) {
    using enum ExecutionState;
    const std::vector<ExecutionState> states{succeeded, running, queued, queued, queued, queued};
    EXPECT_EQ(load_of(cluster, {job(2, "0-5%2", states)}).wanted_nodes, 4);
    EXPECT_EQ(load_of(cluster, {job(2, "0-5", states)}).wanted_nodes, 10);
    EXPECT_EQ(load_of(cluster, {job(2, "0-5%9", states)}).wanted_nodes, 10);
    // The limit was raised in Slurm.
    const std::vector<ExecutionState> begun{running, running, terminating, queued};
    EXPECT_EQ(load_of(cluster, {job(1, "0-3%2", begun)}).wanted_nodes, 3);
    EXPECT_EQ(load_of(cluster, {job(1, "0-5%2", states), job(3, "", {})}).wanted_nodes, 5);
    // Tasks that were queued again are of an array of their own.
    auto again = job(1, "0-5%1", states);
    again.job.array_runs.push_back({.slurm_job_id = "30", .tasks = "1", .attempts_before = 1});
    EXPECT_EQ(load_of(cluster, {again}).wanted_nodes, 2);
}

// Breaks when the sum gets negative.
TEST(Load, OfVeryManyNodesStaysANumber) {
    const std::vector<ExecutionState> many(1500, ExecutionState::queued);
    const auto view = job(2'000'000, "0-1499", many);
    EXPECT_GT(load_of(cluster, {view}).wanted_nodes, 0);
    EXPECT_GT(load_of(cluster, {view, view, view}).wanted_nodes, 0);
}

}  // namespace
}  // namespace batchai::clusters
