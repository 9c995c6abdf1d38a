// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/queue_again.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

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
    // Slurm says that a job of higher priority has claimed the nodes.
    void is_preempted() const {
        std::filesystem::remove(path("settings"));
        append("settings",
               "JobId=7 ReqNodeList=(null) ExcNodeList=(null) PreemptTime=2026-11-24T10:00:00\n");
    }
    // Slurm says when the job was put into its queue.
    void was_queued_at(const std::string& time) const {
        std::filesystem::remove(path("queue"));
        append("queue", "7|RUNNING|None|main|ada|0|" + time + "|" + time + "|" + time +
                            "|N/A|1|n1.invalid|7|N/A|\n");
    }
    // The ranks of the step get Slurm's notice.
    void give_notice(const StepRequest& request) {
        EXPECT_EQ(request.pass_on(plan::checkpoint_notice), std::nullopt);
        for (; steps_.signalled.empty(); request.tick())
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    // Writes the record of a first attempt that has ended at 10:00, and the count that it has left.
    void has_ended(EndedBy by, int exit_code, const record::RetryCount& count) const {
        const record::JobFiles files(path("job"));
        std::filesystem::create_directories(path("job/attempts"));
        record::Attempt attempt;
        attempt.ended_by = by;
        attempt.exit_code = exit_code;
        attempt.end = base::from_iso8601("2026-11-24T10:00:00");
        ASSERT_TRUE(base::write_atomically(files.attempt(attempt.number), to_json(attempt)));
        ASSERT_TRUE(record::write_retry_count(files, count));
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

// Breaks when somebody's requeue of a job that has ended is taken for Slurm's.
TEST_F(QueueAgainTest, AJobThatIsQueuedByHandRuns) {
    setenv("TZ", "UTC", 1);
    has_ended(EndedBy::program, 74, {.attempt = 1});
    granted_.restart = 1;
    was_queued_at("2026-11-24T10:01:00");
    EXPECT_EQ(attempt(), 0);
    EXPECT_EQ(count().retries, 0);
    // The same after it was pre-empted and ended, and at its limit.
    plan_.retry->on = {"75"};
    has_ended(EndedBy::preemption, 143, {.attempt = 1, .retries = 2});
    was_queued_at("2026-11-24T10:03:00");
    EXPECT_EQ(attempt(), 0);
    // Slurm requeues a job that it has pre-empted itself, when nothing is left of it.
    has_ended(EndedBy::preemption, 143, {.attempt = 1, .retries = 2});
    was_queued_at("2026-11-24T10:01:00");
    EXPECT_EQ(attempt(), 1);
    EXPECT_EQ(record_.ended_by, EndedBy::preemption);

    has_ended(EndedBy::program, 74, {.attempt = 1});
    was_queued_at("2026-11-24T09:59:58");
    EXPECT_EQ(attempt(), 1);
    EXPECT_EQ(record_.ended_by, EndedBy::program);
}

// Breaks when the end of an attempt that Slurm has killed while it stored its logs is unknown.
TEST_F(QueueAgainTest, AJobThatIsQueuedByHandRunsAlthoughItsLastAttemptWasCutOff) {
    setenv("TZ", "UTC", 1);
    const auto at = [](const char* time) { return *base::from_iso8601(time); };
    record::Attempt first;
    first.ended_by = EndedBy::time_limit;
    first.phases = {{.name = "ranks",
                     .start = at("2026-11-24T09:00:00"),
                     .end = at("2026-11-24T10:00:00"),
                     .exit_code = 143}};
    const record::JobFiles files(path("job"));
    std::filesystem::create_directories(path("job/attempts"));
    granted_.restart = 1;
    was_queued_at("2026-11-24T10:01:00");
    for (const bool given_up : {true, false}) {
        first.retried.reset();
        if (given_up) first.retried.emplace();
        ASSERT_TRUE(base::write_atomically(files.attempt(1), to_json(first)));
        ASSERT_TRUE(record::write_retry_count(files, {.attempt = 1}));
        EXPECT_EQ(attempt(), given_up ? 0 : 1);
    }
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

// Breaks when the second attempt calls a job failed whose ranks had left well in the first.
TEST_F(QueueAgainTest, APreemptionOfRanksThatEndedWellIsJudgedWhenTheNextAttemptBegins) {
    granted_.restart = 1;
    const record::JobFiles files(path("job"));
    for (const bool named : {true, false}) {
        plan_.retry->on = {named ? "preemption" : "75"};
        steps_.requests.clear();
        has_ended(EndedBy::program, 0, {.attempt = 1});
        // This is what Slurm has written to the batch script's log.
        ASSERT_TRUE(record::settle_earlier_attempt(files, 2, EndedBy::preemption));
        EXPECT_EQ(attempt(), 0);
        EXPECT_EQ(steps_.requests.empty(), !named);
        EXPECT_EQ(count().retries, named ? 1 : 0);
        EXPECT_FALSE(record_.failure);
    }
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
    is_preempted();
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

// The ranks get the signal once; they end as they were told to.
TEST_F(QueueAgainTest, RanksThatStopAfterTheWarningHaveReachedTheTimeLimit) {
    plan_.retry->on = {"timeout"};
    plan_.retry->exclude_failed_nodes = true;
    plan_.checkpoint = plan::Checkpoint{.signal = SIGUSR2, .seconds_before = 1};
    steps_.answer(0);
    steps_.answers.emplace_back([this](const StepRequest& request) {
        give_notice(request);
        EXPECT_EQ(request.pass_on(plan::checkpoint_notice), std::nullopt);
        return StepResult{.exit_code = 75,
                          .messages = "srun: error: n2.invalid: task 1: Exited with exit code 75\n",
                          .stopped_by = {}};
    });
    EXPECT_EQ(attempt(), 75);
    EXPECT_EQ(steps_.signalled, std::vector<int>{SIGUSR2});
    EXPECT_EQ(record_.ended_by, EndedBy::time_limit);
    EXPECT_THAT(asked(), HasSubstr("scontrol requeue 7\n"));
    // No node has failed.
    EXPECT_THAT(asked(), Not(HasSubstr("ExcNodeList=")));
}

// Breaks when each failure after the notice is taken for the time limit.
TEST_F(QueueAgainTest, ACrashAfterTheWarningIsTheProgramsOwn) {
    plan_.retry->on = {"timeout"};
    plan_.checkpoint = plan::Checkpoint{.signal = SIGUSR1, .seconds_before = 1};
    steps_.answer(0);
    steps_.answers.emplace_back([this](const StepRequest& request) {
        give_notice(request);
        append("job/attempts/1.stderr-1.txt", "error: boom\n");
        return StepResult{.exit_code = 139,
                          .messages = "srun: error: n2.invalid: task 1: Segmentation fault\n",
                          .stopped_by = {}};
    });
    EXPECT_EQ(attempt(), 139);
    EXPECT_EQ(record_.ended_by, EndedBy::program);
    EXPECT_EQ(record_.failure->rank, 1);
    EXPECT_EQ(record_.failure->first_error_line, "error: boom");
    EXPECT_THAT(asked(), Not(HasSubstr("requeue")));
}

// Breaks when what Slurm says about the end counts less than the notice.
TEST_F(QueueAgainTest, ANodeThatIsLostAfterTheWarningIsTheCause) {
    plan_.checkpoint = plan::Checkpoint{.signal = SIGUSR1, .seconds_before = 1};
    steps_.answer(0);
    steps_.answers.emplace_back([this](const StepRequest& request) {
        give_notice(request);
        return StepResult{.exit_code = 1,
                          .messages = "srun: error: Node failure on n2.invalid\n",
                          .stopped_by = {}};
    });
    attempt();
    EXPECT_EQ(record_.ended_by, EndedBy::node);
}

TEST_F(QueueAgainTest, RanksThatSucceedAfterTheWarningAreDone) {
    plan_.checkpoint = plan::Checkpoint{.signal = SIGUSR1, .seconds_before = 1};
    steps_.answer(0);
    steps_.answers.emplace_back([this](const StepRequest& request) {
        give_notice(request);
        return StepResult{};
    });
    EXPECT_EQ(attempt(), 0);
    EXPECT_EQ(steps_.signalled, std::vector<int>{SIGUSR1});
    EXPECT_FALSE(record_.retried);
}

// Breaks when srun gets TERM and has the ranks killed before they have saved.
TEST_F(QueueAgainTest, TheFirstTermIsTheWarning) {
    plan_.checkpoint = plan::Checkpoint{.signal = SIGUSR1, .seconds_before = 60};
    steps_.answer(0);
    steps_.answers.emplace_back([this](const StepRequest& request) {
        EXPECT_EQ(request.pass_on(SIGHUP), SIGHUP);
        EXPECT_EQ(request.pass_on(SIGTERM), std::nullopt);
        EXPECT_EQ(steps_.signalled, std::vector<int>{SIGUSR1});
        EXPECT_EQ(request.pass_on(SIGTERM), std::nullopt);
        return StepResult{};
    });
    EXPECT_EQ(attempt(), 0);
    EXPECT_EQ(steps_.signalled, std::vector<int>{SIGUSR1});
}

// Breaks when a TERM that did not reach the ranks is taken for what has ended them.
TEST_F(QueueAgainTest, ATermThatWasKeptFromTheRanksHasNotEndedThem) {
    plan_.retry->on = {"timeout"};
    plan_.checkpoint = plan::Checkpoint{.signal = SIGUSR1, .seconds_before = 100};
    steps_.answer(0);
    steps_.answers.emplace_back([](const StepRequest& request) {
        EXPECT_EQ(request.pass_on(plan::checkpoint_notice), std::nullopt);
        EXPECT_EQ(request.pass_on(SIGTERM), std::nullopt);
        return StepResult{.exit_code = 75, .messages = "", .stopped_by = SIGTERM};
    });
    attempt();
    EXPECT_EQ(record_.ended_by, EndedBy::user) << "the TERM was the warning";

    plan_.checkpoint->seconds_before = 6;
    steps_.signalled.clear();
    steps_.answer(0);
    steps_.answers.emplace_back([this](const StepRequest& request) {
        give_notice(request);
        EXPECT_EQ(request.pass_on(SIGTERM), std::nullopt);
        return StepResult{.exit_code = 75, .messages = "", .stopped_by = SIGTERM};
    });
    attempt();
    EXPECT_EQ(record_.ended_by, EndedBy::time_limit);
    EXPECT_EQ(record_.exit_code, 75);
}

// Breaks when ranks that Slurm lets live for KillWait are killed because their time is over.
TEST_F(QueueAgainTest, ATermOfSlurmsIsNeverPassedOn) {
    plan_.checkpoint = plan::Checkpoint{.signal = SIGUSR1, .seconds_before = 1};
    steps_.answer(0);
    steps_.answers.emplace_back([this](const StepRequest& request) {
        give_notice(request);
        while (!request.pass_on(SIGTERM))
            request.tick();
        outside_.why = EndedBy::time_limit;
        EXPECT_EQ(request.pass_on(SIGTERM), std::nullopt);
        EXPECT_EQ(request.pass_on(SIGINT), SIGINT);
        outside_.why.reset();
        return StepResult{};
    });
    EXPECT_EQ(attempt(), 0);
}

// Breaks when the ranks of a job that Slurm ends get a second TERM, or those that only we can warn
// get none.
TEST_F(QueueAgainTest, TermAsTheSignalIsNotGivenTwice) {
    plan_.checkpoint = plan::Checkpoint{.signal = SIGTERM, .seconds_before = 60};
    for (const bool by_slurm : {true, false}) {
        outside_.why = by_slurm ? std::optional(EndedBy::time_limit) : std::nullopt;
        steps_.signalled.clear();
        steps_.answer(0);
        steps_.answers.emplace_back([](const StepRequest& request) {
            EXPECT_EQ(request.pass_on(SIGTERM), std::nullopt);
            request.tick();
            return StepResult{};
        });
        EXPECT_EQ(attempt(), 0);
        EXPECT_EQ(steps_.signalled, by_slurm ? std::vector<int>() : std::vector<int>{SIGTERM});
        outside_.why.reset();
    }
}

// Breaks when a notice that cannot be given at once is lost, or a job waits for it.
TEST_F(QueueAgainTest, RanksThatCannotBeWarnedRunOn) {
    plan_.checkpoint = plan::Checkpoint{.signal = SIGTERM, .seconds_before = 60};
    steps_.signals_reach_tasks = false;
    steps_.answer(0);
    steps_.answers.emplace_back([](const StepRequest& request) {
        EXPECT_EQ(request.pass_on(SIGTERM), std::nullopt);
        request.tick();
        return StepResult{.exit_code = 75, .messages = "", .stopped_by = {}};
    });
    attempt();
    EXPECT_EQ(record_.ended_by, EndedBy::program);
}

// Breaks when a notice is lost that comes while a node is prepared.
TEST_F(QueueAgainTest, ANoticeBeforeTheRanksEndsTheAttempt) {
    plan_.retry->on = {"timeout"};
    plan_.checkpoint = plan::Checkpoint{.signal = SIGUSR1, .seconds_before = 60};
    plan_.steps.insert(plan_.steps.begin(), step_of(plan::StepKind::preparation, 2, false));
    steps_.answers.emplace_back([this](const StepRequest&) {
        steps_.noticed = true;
        return StepResult{};
    });
    EXPECT_EQ(attempt(), 1);
    EXPECT_EQ(steps_.requests.size(), 1U);
    EXPECT_EQ(record_.ended_by, EndedBy::time_limit);
    EXPECT_THAT(record_.failure->first_error_line, HasSubstr("before the ranks"));
    EXPECT_THAT(asked(), HasSubstr("scontrol requeue 7\n"));
}

TEST_F(QueueAgainTest, ANoticeOfAPreemptionBeforeTheRanksIsOne) {
    plan_.checkpoint = plan::Checkpoint{.signal = SIGUSR1, .seconds_before = 60};
    is_preempted();
    steps_.noticed = true;
    EXPECT_EQ(attempt(), 1);
    EXPECT_TRUE(steps_.requests.empty());
    EXPECT_EQ(record_.ended_by, EndedBy::preemption);
}

TEST_F(QueueAgainTest, WithoutACheckpointANoticeIsNone) {
    steps_.noticed = true;
    EXPECT_EQ(attempt(), 0);
}

// Breaks when the preparation is blamed for the time limit.
TEST_F(QueueAgainTest, TheTimeLimitCanEndThePreparation) {
    plan_.retry->on = {"timeout"};
    plan_.checkpoint = plan::Checkpoint{.signal = SIGUSR1, .seconds_before = 60};
    plan_.steps.insert(plan_.steps.begin(), step_of(plan::StepKind::preparation, 2, false));
    outside_.why = EndedBy::time_limit;
    steps_.answers.emplace_back([](const StepRequest& request) {
        EXPECT_EQ(request.pass_on(SIGTERM), SIGTERM);
        return StepResult{.exit_code = 143, .messages = "", .stopped_by = SIGTERM};
    });
    attempt();
    EXPECT_EQ(record_.ended_by, EndedBy::time_limit);
    EXPECT_EQ(record_.failure->phase, "preparation");
    EXPECT_THAT(asked(), HasSubstr("scontrol requeue 7\n"));
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
    plan_.checkpoint = plan::Checkpoint{.signal = SIGUSR1, .seconds_before = 1};
    mount_remote_storage();
    const record::JobFiles files(path("job"));
    std::string asked_meanwhile = "(nobody waited)";
    steps_.answer(0);
    steps_.answers.emplace_back([&](const StepRequest& request) {
        give_notice(request);
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
