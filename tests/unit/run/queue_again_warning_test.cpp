// SPDX-License-Identifier: GPL-2.0-or-later
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/timestamp.hpp"
#include "plan/plan.hpp"
#include "record/ended_by.hpp"
#include "record/job_files.hpp"
#include "record/node_notes.hpp"
#include "slurm_of_scripts.hpp"

namespace batchai::run {

namespace {

using record::EndedBy;
using testing::HasSubstr;
using testing::Not;

}  // namespace

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

}  // namespace batchai::run
