// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/final_failure.hpp"

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slurm_of_scripts.hpp"

namespace batchai::run {

namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* expedited = "JobState=RUNNING ExpeditedRequeue=Yes";
constexpr const char* told = "scontrol update JobId=7 Requeue=0\n";

}  // namespace

class FinalFailureTest : public QueueAgainTest {
  protected:
    void SetUp() override {
        QueueAgainTest::SetUp();
        shows(expedited);
    }
    // Slurm shows this of the job.
    void shows(const std::string& more, const std::string& preempted = "None") const {
        std::filesystem::remove(path("settings"));
        append("settings", "JobId=7 ReqNodeList=(null) ExcNodeList=(null) PreemptTime=" +
                               preempted + " " + more + "\n");
    }
};

// Breaks when a job that has failed stays in the queue, held, for ever.
TEST_F(FinalFailureTest, AnExpeditedJobThatIsNotRunAgainIsNotHeld) {
    EXPECT_EQ(attempt_that_ends_with(74), 74);
    EXPECT_THAT(asked(), HasSubstr(told));
    EXPECT_THAT(asked(), Not(HasSubstr("scontrol requeue")));
}

TEST_F(FinalFailureTest, AJobWithoutRetryIsNotHeldEither) {
    plan_.retry.reset();
    EXPECT_EQ(attempt_that_ends_with(75), 75);
    EXPECT_THAT(asked(), HasSubstr(told));
}

// Breaks when the attempt that is to come could not be queued again.
TEST_F(FinalFailureTest, AJobThatIsRunAgainKeepsItsRight) {
    EXPECT_EQ(attempt_that_ends_with(75), 75);
    EXPECT_THAT(asked(), HasSubstr("scontrol requeue 7\n"));
    EXPECT_THAT(asked(), Not(HasSubstr("Requeue=0")));
}

// Breaks when a job that Slurm does not queue again is held after all.
TEST_F(FinalFailureTest, AJobThatSlurmRefusesToRunAgainIsNotHeld) {
    append("refuse", "slurm_requeue error: Job has exceeded its limit\n");
    EXPECT_EQ(attempt_that_ends_with(75), 75);
    EXPECT_THAT(asked(), HasSubstr(told));
}

TEST_F(FinalFailureTest, AJobThatSucceedsIsLeftAlone) {
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(asked(), Not(HasSubstr("Requeue=0")));
}

// Breaks when Slurm may no longer queue other jobs again, or one that it is queueing again just now
// because a node is lost or another job has taken its nodes.
TEST_F(FinalFailureTest, OtherJobsAreLeftAlone) {
    plan_.retry.reset();
    shows("JobState=RUNNING");
    attempt_that_ends_with(1);
    shows("JobState=EXPEDITING ExpeditedRequeue=Yes");
    attempt_that_ends_with(1);
    shows("JobState=COMPLETING ExpeditedRequeue=Yes");
    attempt_that_ends_with(1);
    shows(expedited, "2026-11-24T10:00:00");
    attempt_that_ends_with(1);
    EXPECT_THAT(asked(), Not(HasSubstr("Requeue=0")));
}

// Breaks when the last task of an array stands for all of them.
TEST_F(FinalFailureTest, ATaskOfAnArrayIsMeantAlone) {
    granted_.array_id = "5";
    granted_.array_task = 3;
    plan_.retry.reset();
    attempt_that_ends_with(1);
    EXPECT_THAT(asked(), HasSubstr("scontrol update JobId=5_3 Requeue=0\n"));
}

TEST_F(FinalFailureTest, ARefusalIsTold) {
    script("scontrol",
           "case $1 in\n"
           "--oneliner) cat \"$here/settings\" ;;\n"
           "update) echo 'Requested operation not supported on this system' >&2; exit 1 ;;\n"
           "esac");
    const auto line = let_fail(slurm::Client(std::chrono::seconds(5)), granted_);
    ASSERT_TRUE(line);
    EXPECT_THAT(*line, HasSubstr("may hold the job"));
    EXPECT_THAT(*line, HasSubstr("not supported"));
}

}  // namespace batchai::run
