// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/queue_again.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attempt_of_fakes.hpp"
#include "record/node_notes.hpp"
#include "record/retries.hpp"
#include "store/records.hpp"

namespace batchai::run {

namespace {

using record::EndedBy;
using testing::HasSubstr;
using testing::Not;

// An attempt whose Slurm is three scripts. They append what they are asked to "asked", and answer
// with the contents of a file. What was durable when the requeue was asked for is kept.
class QueueAgainTest : public PhasesTest {
  protected:
    void SetUp() override {
        PhasesTest::SetUp();
        // The job's directory is made when it is submitted.
        std::filesystem::create_directories(path("job"));
        plan_.retry = plan::Retry{.on = {"75", "nodeFailure", "preemption"}, .max = 2};
        script("squeue", "cat \"$here/queue\"");
        script("scontrol",
               "case $1 in\n"
               "requeue) cp \"$here/job/retries.json\" \"$here/job/attempts/1.json\" \"$here\"\n"
               "    [ ! -e \"$here/refuse\" ] || { cat \"$here/refuse\" >&2; exit 1; } ;;\n"
               "--oneliner) cat \"$here/settings\" ;;\n"
               "esac");
        script("scancel", "true");
        append("queue", "");
        append("settings", "JobId=7 ReqNodeList=(null) ExcNodeList=(null) PreemptTime=None\n");
        old_path_ = std::getenv("PATH");
        setenv("PATH", (directory_ + "/bin:" + old_path_).c_str(), 1);
    }
    void TearDown() override {
        setenv("PATH", old_path_.c_str(), 1);
        PhasesTest::TearDown();
    }
    void script(const std::string& name, const std::string& text) const {
        append("bin/" + name, "#!/bin/sh\nhere='" + directory_ + "'\necho \"" + name +
                                  " $*\" >> \"$here/asked\"\n" + text + "\n");
        std::filesystem::permissions(path("bin/" + name), std::filesystem::perms::owner_all);
    }
    // Runs an attempt whose rank 1 ends with the code.
    int attempt_that_ends_with(int code) {
        steps_.answer(0);
        answer_of_rank_1("error: boom\n", code,
                         "srun: error: n2.invalid: task 1: Exited with exit code " +
                             std::to_string(code) + "\n");
        return attempt();
    }
    [[nodiscard]] record::RetryCount count() const {
        const auto found = record::read_retry_count(record::JobFiles(path("job")));
        return found.value().value();
    }
    [[nodiscard]] std::string asked() const { return text_of("asked"); }

    std::string old_path_;
};

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

TEST_F(QueueAgainTest, TheLimitCountsAllAttempts) {
    ASSERT_TRUE(
        record::write_retry_count(record::JobFiles(path("job")), {.attempt = 3, .retries = 2}));
    granted_.restart = 2;
    attempt_that_ends_with(75);
    EXPECT_THAT(asked(), Not(HasSubstr("requeue")));
    EXPECT_THAT(record_.retried->message, HasSubstr("\"retry.max\" is 2"));
}

// Breaks when a job whose count is lost is run again for ever.
TEST_F(QueueAgainTest, WithoutACountEachRequeueOfSlurmCounts) {
    granted_.restart = 2;
    EXPECT_EQ(attempt(), 0);
    std::filesystem::remove_all(path("job"));
    std::filesystem::create_directories(path("job"));
    steps_.requests.clear();
    granted_.restart = 3;
    EXPECT_EQ(attempt(), 1);
    EXPECT_TRUE(steps_.requests.empty());
    EXPECT_THAT(record_.failure->first_error_line, HasSubstr("\"retry.max\" is 2"));
    // With the record of the attempt before it, too.
    std::filesystem::remove_all(path("job"));
    record::Attempt third;
    third.number = 3;
    third.ended_by = EndedBy::node;
    std::filesystem::create_directories(path("job/attempts"));
    ASSERT_TRUE(base::write_atomically(path("job/attempts/3.json"), to_json(third)));
    EXPECT_EQ(attempt(), 1);
    EXPECT_THAT(record_.failure->first_error_line, HasSubstr("\"retry.max\" is 2"));
}

TEST_F(QueueAgainTest, ACountThatCannotBeReadEndsTheJob) {
    append("job/retries.json", "{");
    granted_.restart = 1;
    EXPECT_EQ(attempt(), 1);
    EXPECT_TRUE(steps_.requests.empty());
    EXPECT_THAT(record_.failure->first_error_line, HasSubstr("cannot be read"));
    EXPECT_THAT(asked(), Not(HasSubstr("requeue")));
}

TEST_F(QueueAgainTest, ACountThatCannotBeWrittenEndsTheJob) {
    // A directory cannot be replaced by a file.
    std::filesystem::create_directories(path("job/retries.json/x"));
    attempt_that_ends_with(75);
    EXPECT_THAT(asked(), Not(HasSubstr("requeue")));
    EXPECT_THAT(record_.retried->message, HasSubstr("count"));
}

// Breaks when Slurm's own requeue escapes the limit or the list of causes.
TEST_F(QueueAgainTest, ARequeueOfSlurmsIsJudgedWhenTheNextAttemptBegins) {
    const record::JobFiles files(path("job"));
    std::filesystem::create_directories(path("job/attempts"));
    record::Attempt first;
    first.ended_by = EndedBy::node;
    ASSERT_TRUE(base::write_atomically(files.attempt(1), to_json(first)));
    ASSERT_TRUE(record::write_retry_count(files, {.attempt = 1}));
    granted_.restart = 1;
    EXPECT_EQ(attempt(), 0);
    EXPECT_EQ(count().retries, 1);
    EXPECT_EQ(count().attempt, 2);

    plan_.retry->on = {"75"};
    ASSERT_TRUE(record::write_retry_count(files, {.attempt = 1}));
    EXPECT_EQ(attempt(), 1);
    EXPECT_EQ(record_.ended_by, EndedBy::node);
    EXPECT_THAT(record_.failure->first_error_line, HasSubstr("lostNode"));
}

TEST_F(QueueAgainTest, AnAttemptThatWasCountedIsNotCountedAgain) {
    ASSERT_TRUE(
        record::write_retry_count(record::JobFiles(path("job")), {.attempt = 2, .retries = 2}));
    granted_.restart = 1;
    EXPECT_EQ(attempt(), 0);
    EXPECT_EQ(count().retries, 2);
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
    std::filesystem::remove(path("settings"));
    append("settings",
           "JobId=7 ReqNodeList=(null) ExcNodeList=(null) PreemptTime=2026-11-24T10:00:00\n");
    attempt_that_ends_with(3);
    EXPECT_EQ(record_.ended_by, EndedBy::preemption);
    EXPECT_EQ(record_.failure->code, "JobPreempted");
    EXPECT_THAT(asked(), HasSubstr("scontrol requeue 7\n"));
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

// The ranks get the signal once; they end with a code that "retry" does not name.
TEST_F(QueueAgainTest, RanksThatEndAfterTheWarningHaveReachedTheTimeLimit) {
    plan_.retry->on = {"timeout"};
    plan_.checkpoint = plan::Checkpoint{.signal = SIGUSR2, .seconds_before = 60};
    steps_.answer(0);
    steps_.answers.emplace_back([](const StepRequest& request) {
        EXPECT_EQ(request.pass_on(plan::checkpoint_notice), SIGUSR2);
        EXPECT_EQ(request.pass_on(plan::checkpoint_notice), std::nullopt);
        EXPECT_EQ(request.pass_on(SIGTERM), SIGTERM);
        return StepResult{.exit_code = 3, .messages = "", .stopped_by = {}};
    });
    EXPECT_EQ(attempt(), 3);
    EXPECT_EQ(record_.ended_by, EndedBy::time_limit);
    EXPECT_THAT(asked(), HasSubstr("scontrol requeue 7\n"));
}

TEST_F(QueueAgainTest, RanksThatSucceedAfterTheWarningAreDone) {
    plan_.checkpoint = plan::Checkpoint{.signal = SIGUSR1, .seconds_before = 60};
    steps_.answer(0);
    steps_.answers.emplace_back([](const StepRequest& request) {
        EXPECT_EQ(request.pass_on(plan::checkpoint_notice), SIGUSR1);
        return StepResult{};
    });
    EXPECT_EQ(attempt(), 0);
}

// Breaks when srun gets the first TERM and has the ranks killed before they have saved.
TEST_F(QueueAgainTest, TheFirstTermIsTheWarning) {
    plan_.checkpoint = plan::Checkpoint{.signal = SIGUSR1, .seconds_before = 60};
    steps_.answer(0);
    steps_.answers.emplace_back([](const StepRequest& request) {
        EXPECT_EQ(request.pass_on(SIGHUP), SIGHUP);
        EXPECT_EQ(request.pass_on(SIGTERM), SIGUSR1);
        EXPECT_EQ(request.pass_on(SIGTERM), SIGTERM);
        return StepResult{};
    });
    EXPECT_EQ(attempt(), 0);
}

TEST_F(QueueAgainTest, WithoutACheckpointTheNoticeIsKeptFromTheRanks) {
    steps_.answer(0);
    steps_.answers.emplace_back([](const StepRequest& request) {
        EXPECT_EQ(request.pass_on(plan::checkpoint_notice), std::nullopt);
        EXPECT_EQ(request.pass_on(SIGTERM), SIGTERM);
        return StepResult{};
    });
    EXPECT_EQ(attempt(), 0);
}

// Breaks when the requeue, after which Slurm kills what is left, comes before the data is stored.
TEST_F(QueueAgainTest, ACheckpointOnRemoteStorageIsWaitedFor) {
    plan_.retry->on = {"timeout"};
    plan_.checkpoint = plan::Checkpoint{.signal = SIGUSR1, .seconds_before = 60};
    mount_remote_storage();
    const record::JobFiles files(path("job"));
    std::string asked_meanwhile = "(nobody waited)";
    steps_.answer(0);
    steps_.answers.emplace_back([&](const StepRequest& request) {
        EXPECT_EQ(request.pass_on(plan::checkpoint_notice), SIGUSR1);
        record::StorageNote note{.node = "n1.invalid",
                                 .slurm_job_id = "7",
                                 .until = base::now() + std::chrono::seconds(60)};
        record::write_storage_note(files, note);
        steps_.while_waiting = [&, note]() -> std::optional<int> {
            asked_meanwhile = text_of("asked");
            record::remove_storage_note(note);
            return std::nullopt;
        };
        return StepResult{.exit_code = 75, .messages = "", .stopped_by = {}};
    });
    EXPECT_EQ(attempt(), 75);
    EXPECT_THAT(asked_meanwhile, Not(HasSubstr("requeue")));
    EXPECT_THAT(asked_meanwhile, Not(HasSubstr("nobody")));
    EXPECT_THAT(asked(), HasSubstr("scontrol requeue 7\n"));
}

}  // namespace batchai::run
