// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/watch_first_node.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "record/attempt.hpp"

namespace batchai::run {

namespace {

using slurm::JobState;
using testing::Contains;

const FirstNodeWatch watch{"7", "5_2", "n1", "/job/attempts/1.json", "/job/slurm.log"};

slurm::JobStatus job(JobState state, std::vector<std::string> nodes) {
    slurm::JobStatus status;
    status.state = state;
    status.nodes = std::move(nodes);
    return status;
}

}  // namespace

TEST(FirstNodeWatch, SeesThatTheJobLostItsFirstNode) {
    for (const JobState state :
         {JobState::running, JobState::completing, JobState::failed, JobState::node_fail})
        EXPECT_TRUE(first_node_is_lost(watch, job(state, {"n2", "n3"}), {}));
}

TEST(FirstNodeWatch, LeavesAJobAloneThatHasIt) {
    EXPECT_FALSE(first_node_is_lost(watch, job(JobState::running, {"n1", "n2"}), {}));
    EXPECT_FALSE(first_node_is_lost(watch, job(JobState::running, {"n1"}), {}));
    EXPECT_TRUE(first_node_is_lost(watch, job(JobState::running, {"n10", "n2"}), {}));
}

// A job that waits again has no nodes, and whoever ended it must not find it in the queue.
TEST(FirstNodeWatch, LeavesAJobAloneWhoseFateIsDecided) {
    EXPECT_FALSE(first_node_is_lost(watch, job(JobState::pending, {}), {}));
    EXPECT_FALSE(first_node_is_lost(watch, job(JobState::running, {}), {}));
    for (const JobState state : {JobState::cancelled, JobState::timeout, JobState::completed,
                                 JobState::preempted, JobState::requeued, JobState::unknown})
        EXPECT_FALSE(first_node_is_lost(watch, job(state, {"n2", "n3"}), {}));
    record::Attempt ended;
    ended.end = base::now();
    EXPECT_FALSE(first_node_is_lost(watch, job(JobState::completing, {"n2"}), ended));
}

TEST(FirstNodeWatch, RunsOnTheOtherNodeWithoutAShareOfIt) {
    const auto arguments = watch_arguments(watch, "/usr/bin/batchai", "n2");
    for (const char* word : {"--nodelist=n2", "--overlap", "--gres=none", "/usr/bin/batchai",
                             "watch-first-node", "--slurm-job=7", "--requeue=5_2", "--node=n1",
                             "--record=/job/attempts/1.json", "--log=/job/slurm.log"})
        EXPECT_THAT(arguments, Contains(word));
}

}  // namespace batchai::run
