// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/queue_again.hpp"

#include <csignal>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/timestamp.hpp"
#include "plan/plan.hpp"
#include "record/attempt.hpp"
#include "record/ended_by.hpp"
#include "record/job_files.hpp"
#include "record/retries.hpp"
#include "slurm_of_scripts.hpp"
#include "store/records.hpp"

namespace batchai::run {

namespace {

using record::EndedBy;
using testing::HasSubstr;
using testing::Not;

}  // namespace

TEST_F(QueueAgainTest, AJobIsQueuedAgainByItsExitCode) {
    EXPECT_EQ(attempt_that_ends_with(75), 75);
    EXPECT_THAT(asked(), HasSubstr("scontrol requeue 7\n"));
    ASSERT_TRUE(record_.retried);
    EXPECT_TRUE(record_.runs_again());
    EXPECT_THAT(record_.retried->message, HasSubstr("retry 1 of 2"));
    EXPECT_EQ(count().attempt, 2);
    EXPECT_EQ(count().retries, 1);
}

// Breaks when a crash between the two loses the count, or the end of the attempt.
TEST_F(QueueAgainTest, CountAndEndAreSavedBeforeSlurmIsAsked) {
    attempt_that_ends_with(75);
    EXPECT_EQ(text_of("retries.json"), text_of("job/retries.json"));
    const auto saved = record::attempt_from_json(text_of("1.json"));
    ASSERT_TRUE(saved) << saved.error().text();
    EXPECT_EQ(saved->exit_code, 75);
    EXPECT_TRUE(saved->failure);
    EXPECT_TRUE(saved->runs_again());
}

TEST_F(QueueAgainTest, AnotherExitCodeEndsTheJob) {
    attempt_that_ends_with(74);
    EXPECT_THAT(asked(), Not(HasSubstr("requeue")));
    ASSERT_TRUE(record_.retried);
    EXPECT_FALSE(record_.runs_again());
}

TEST_F(QueueAgainTest, AJobThatSucceedsIsLeftAlone) {
    EXPECT_EQ(attempt(), 0);
    EXPECT_FALSE(record_.retried);
}

// Breaks when the refusal of a controller is not told, or leaves the job as one that will run
// again.
TEST_F(QueueAgainTest, ARefusalOfSlurmIsTold) {
    append("refuse", "Requested operation is presently disabled for job 7\n");
    attempt_that_ends_with(75);
    EXPECT_FALSE(record_.runs_again());
    EXPECT_THAT(record_.retried->message, HasSubstr("presently disabled"));
}

TEST_F(QueueAgainTest, ACountThatCannotBeWrittenEndsTheJob) {
    // A directory cannot be replaced by a file.
    std::filesystem::create_directories(path("job/retries.json/x"));
    attempt_that_ends_with(75);
    EXPECT_THAT(asked(), Not(HasSubstr("requeue")));
    EXPECT_THAT(record_.retried->message, HasSubstr("count"));
}

// Breaks when ranks that have saved a checkpoint and left are taken for done, or for failed.
TEST_F(QueueAgainTest, RanksThatEndWellDuringAPreemptionRunAgain) {
    is_preempted();
    EXPECT_EQ(attempt(), 0);
    EXPECT_EQ(record_.ended_by, EndedBy::preemption);
    EXPECT_TRUE(record_.runs_again());
    EXPECT_EQ(count().retries, 1);
    EXPECT_THAT(asked(), HasSubstr("scontrol requeue 7\n"));
}

TEST_F(QueueAgainTest, RanksThatEndWellDuringAPreemptionHaveSucceededIfItIsNotNamed) {
    is_preempted();
    plan_.retry->on = {"75"};
    EXPECT_EQ(attempt(), 0);
    EXPECT_EQ(record_.ended_by, EndedBy::program);
    EXPECT_FALSE(record_.failure);
    EXPECT_THAT(asked(), Not(HasSubstr("requeue")));
}

TEST_F(QueueAgainTest, RanksThatEndWellDuringAPreemptionHaveSucceededIfTheyCannotRunAgain) {
    is_preempted();
    append("refuse", "Requested operation is presently disabled for job 7\n");
    EXPECT_EQ(attempt(), 0);
    EXPECT_EQ(record_.ended_by, EndedBy::program);
    EXPECT_FALSE(record_.failure);
    EXPECT_FALSE(record_.runs_again());
    EXPECT_THAT(record_.retried->message, HasSubstr("presently disabled"));
}

// Breaks when one task's requeue is that of the whole array.
TEST_F(QueueAgainTest, ATaskOfAnArrayIsQueuedAlone) {
    granted_.array_id = "5";
    granted_.array_task = 3;
    plan_.retry->exclude_failed_nodes = true;
    attempt_that_ends_with(75);
    EXPECT_THAT(asked(), HasSubstr("scontrol requeue 5_3\n"));
    EXPECT_THAT(asked(), HasSubstr("update JobId=5_3 ExcNodeList=n2.invalid\n"));
    EXPECT_THAT(asked(), HasSubstr("show job 5_3\n"));
}

TEST_F(QueueAgainTest, AJobThatItsUserHasEndedIsNotRunAgain) {
    store::Job job;
    job.termination_requested = base::now();
    append("job/job.json", to_json(job));
    attempt_that_ends_with(75);
    EXPECT_THAT(asked(), Not(HasSubstr("requeue")));
    EXPECT_FALSE(record_.runs_again());
}

// Breaks when the requeue revives a job that was cancelled while the attempt ended.
TEST_F(QueueAgainTest, AJobThatWasCancelledIsNotRunAgain) {
    outside_.why = EndedBy::user;
    steps_.answer(0);
    steps_.answer(143, "", SIGTERM);
    attempt();
    EXPECT_EQ(record_.ended_by, EndedBy::user);
    EXPECT_THAT(asked(), Not(HasSubstr("requeue")));
}

TEST_F(QueueAgainTest, ThePreemptionIsTheCauseDuringItsGraceTime) {
    is_preempted();
    attempt_that_ends_with(3);
    EXPECT_EQ(record_.ended_by, EndedBy::preemption);
    EXPECT_EQ(record_.failure->code, "JobPreempted");
    EXPECT_THAT(asked(), HasSubstr("scontrol requeue 7\n"));
}

// Breaks when a script that is a shell dies of the requeue, and all of its processes with it,
// before the nodes are excluded or the user is told.
TEST_F(QueueAgainTest, NothingIsLeftToDoAfterTheRequeue) {
    plan_.retry->exclude_failed_nodes = true;
    append("on-requeue", "cat \"$here\"/logs/execution-n1* > \"$here/said\"");
    attempt_that_ends_with(75);
    EXPECT_THAT(asked(), HasSubstr("reads\nscontrol requeue 7\n"
                                   "scontrol update JobId=7 ExcNodeList=n2.invalid\n"));
    EXPECT_THAT(text_of("said"), HasSubstr("the job is queued again, retry 1 of 2"));
}

TEST_F(QueueAgainTest, AJobIsQueuedAgainAlthoughItsNodesCannotBeExcluded) {
    plan_.retry->exclude_failed_nodes = true;
    append("on-update", "echo 'Invalid node name specified for job 7' >&2; exit 1");
    append("on-requeue",
           "[ ! -e \"$here/queued\" ] || {\n"
           "echo 'Job is pending execution for job 7' >&2; exit 1; }\n"
           "touch \"$here/queued\"");
    attempt_that_ends_with(75);
    EXPECT_TRUE(record_.runs_again());
    EXPECT_THAT(text_of("logs/execution-n1.invalid.log"),
                HasSubstr("n2.invalid cannot be excluded from the job"));
}

// Breaks when the user's own --exclude is lost.
TEST_F(QueueAgainTest, AFailedNodeIsExcludedBesidesTheUsersOwn) {
    plan_.retry->exclude_failed_nodes = true;
    std::filesystem::remove(path("settings"));
    append("settings", "JobId=7 ReqNodeList=(null) ExcNodeList=x[1-3] PreemptTime=None\n");
    attempt_that_ends_with(75);
    EXPECT_THAT(asked(), HasSubstr("ExcNodeList=x[1-3],n2.invalid\n"));
}

TEST_F(QueueAgainTest, ANodeThatTheUserRequiresIsNotExcluded) {
    plan_.retry->exclude_failed_nodes = true;
    std::filesystem::remove(path("settings"));
    append("settings", "JobId=7 ReqNodeList=n2.invalid ExcNodeList=(null) PreemptTime=None\n");
    attempt_that_ends_with(75);
    EXPECT_THAT(asked(), HasSubstr("requeue"));
    EXPECT_THAT(asked(), Not(HasSubstr("ExcNodeList=")));
}

TEST_F(QueueAgainTest, AJobWithoutProgressIsGivenUp) {
    plan_.retry->progress_directory = path("models");
    plan_.retry->attempts_without_progress = 1;
    attempt_that_ends_with(75);
    EXPECT_THAT(asked(), Not(HasSubstr("requeue")));
    EXPECT_THAT(record_.retried->message, HasSubstr("written nothing"));
}

TEST_F(QueueAgainTest, AJobThatMakesProgressIsQueuedAgain) {
    plan_.retry->progress_directory = path("models");
    plan_.retry->attempts_without_progress = 1;
    steps_.answer(0);
    steps_.answers.emplace_back([this](const StepRequest&) {
        append("models/1.pt", "weights");
        return StepResult{.exit_code = 75,
                          .messages = "srun: error: n2.invalid: task 1: Exited with exit code 75\n",
                          .stopped_by = {}};
    });
    attempt();
    EXPECT_THAT(asked(), HasSubstr("scontrol requeue 7\n"));
}

// Breaks when a job without "retry" stays on a node that fails the site's checks.
TEST_F(QueueAgainTest, AJobLeavesNodesThatFailTheSitesChecks) {
    plan_.retry.reset();
    plan_.health = plan::HealthChecks{.directory = "/checks", .retries = 1};
    steps_.answers.emplace_back([this](const StepRequest&) {
        for (const char* task : {"0", "1"})
            append("job/attempts/1.health." + std::string(task) + ".json",
                   R"({"schema": "batchai-health/v1", "refused": "", "checks": [{"name": "disk",
                    "outcome": "failed", "exitCode": 1, "line": "gone", "milliseconds": 5}]})");
        return StepResult{};
    });
    EXPECT_EQ(attempt(), 1);
    EXPECT_EQ(steps_.requests.size(), 1U) << "nothing else was run";
    EXPECT_EQ(record_.ended_by, EndedBy::health);
    EXPECT_TRUE(record_.runs_again());
    EXPECT_THAT(asked(), HasSubstr("scontrol requeue 7\n"));
    EXPECT_THAT(asked(), HasSubstr("ExcNodeList=n1.invalid,n2.invalid"));
    EXPECT_EQ(count().health, 1);
    EXPECT_EQ(count().attempt, 2);
    EXPECT_EQ(count().retries, 0);
}

// Breaks when a job visits one bad node after the other for ever, or comes back to one that it must
// have.
TEST_F(QueueAgainTest, AJobIsQueuedAgainForItsHealthOnlySoOften) {
    plan_.health = plan::HealthChecks{.directory = "/checks", .retries = 1};
    const auto fail = [this](const StepRequest&) {
        append("job/attempts/2.health.1.json",
               R"({"schema": "batchai-health/v1", "refused": "", "checks": [{"name": "disk",
                "outcome": "failed", "exitCode": 1, "line": "gone", "milliseconds": 5}]})");
        return StepResult{};
    };
    ASSERT_TRUE(record::write_retry_count(record::JobFiles(path("job")),
                                          {.attempt = 2, .retries = 0, .health = 1}));
    granted_.restart = 1;
    steps_.answers.emplace_back(fail);
    EXPECT_EQ(attempt(), 1);
    EXPECT_EQ(record_.failure->node, "n2.invalid");
    EXPECT_THAT(asked(), Not(HasSubstr("requeue")));
    EXPECT_THAT(record_.retried->message, HasSubstr("the site allows no more"));
    ASSERT_TRUE(record::write_retry_count(record::JobFiles(path("job")), {.attempt = 2}));
    std::filesystem::remove(path("settings"));
    append("settings", "JobId=7 ReqNodeList=n2.invalid ExcNodeList=(null) PreemptTime=None\n");
    steps_.answers.emplace_back(fail);
    EXPECT_EQ(attempt(), 1);
    EXPECT_THAT(asked(), Not(HasSubstr("requeue")));
    EXPECT_THAT(record_.retried->message, HasSubstr("it must run on n2.invalid"));
}

}  // namespace batchai::run
