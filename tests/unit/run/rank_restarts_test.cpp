// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/rank_restarts.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "record/node_notes.hpp"
#include "slurm_of_scripts.hpp"

namespace batchai::run {

namespace {

using record::EndedBy;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* failure_of_n2 =
    "srun: error: n1.invalid: task 0: Exited with exit code 1\n"
    "srun: error: Node failure on n2.invalid\n";

}  // namespace

// A job of two ranks on n1 and n2, with n3 as a spare node.
class SpareNodes : public QueueAgainTest {
  protected:
    void SetUp() override {
        QueueAgainTest::SetUp();
        plan_.retry.reset();
        give_a_spare_node();
    }
    // One start: the wire-up check, and the ranks.
    void start_that_ends(int exit_code, const std::string& messages = {}) {
        steps_.answer(0);
        steps_.answer(exit_code, messages);
    }
    // Has the check of the GPUs find them bad on the nodes of these tasks, of so many.
    void answer_with_bad_gpus(const std::string& bad, int tasks) {
        steps_.answers.emplace_back([=, this](const StepRequest&) {
            for (int i = 0; i < tasks; ++i) {
                const std::string task = std::to_string(i);
                append("job/attempts/1.gpus." + task + ".json",
                       std::string(R"({"schema": "mpi_bridge-gpus/v1", "fault": ")") +
                           (bad.find(task) != std::string::npos ? "no driver" : "") +
                           R"(", "gpus": "2", "driver": "", "slow": "", "direct": "", "nccl": "",
                           "host": "", "peers": "", "allreduce": "", "ncclUnchecked": ""})");
            }
            return StepResult{};
        });
    }
    // The nodes of the step of the ranks at each start.
    [[nodiscard]] std::vector<std::string> nodes_of_starts() const {
        std::vector<std::string> found;
        for (const StepRequest& request : steps_.requests) {
            if (!request.starts) continue;
            for (const std::string& argument : request.arguments) {
                if (argument.starts_with("--nodelist=")) found.push_back(argument.substr(11));
            }
        }
        return found;
    }
};

TEST_F(SpareNodes, TakeThePlaceOfANodeThatHasFailed) {
    start_that_ends(1, failure_of_n2);
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(nodes_of_starts(), ElementsAre("n1.invalid,n2.invalid", "n1.invalid,n3.invalid"));
    ASSERT_EQ(record_.restarts.size(), 1U);
    EXPECT_THAT(record_.restarts[0].nodes, ElementsAre("n1.invalid", "n3.invalid"));
    EXPECT_EQ(record_.restarts[0].failure.node, "n2.invalid");
    EXPECT_EQ(record_.restarts[0].failure.rank, std::nullopt) << "n1 has only noticed it";
    EXPECT_THAT(steps_.requests.back().environment, Contains("SLURM_RESTART_COUNT=1"));
    EXPECT_THAT(steps_.requests.back().environment, Contains("TORCHELASTIC_RESTART_COUNT=1"));
    EXPECT_THAT(steps_.requests[1].environment, Not(Contains("SLURM_RESTART_COUNT=1")));
}

// Breaks when the ranks start once more where Slurm does not know yet that the node is dead.
TEST_F(SpareNodes, TakeThePlaceOfANodeThatSlurmStillBelievesIn) {
    steps_.answer(0);
    steps_.answers.emplace_back([](const StepRequest&) {
        return StepResult{
            .exit_code = 137, .messages = {}, .stopped_by = {}, .dead_nodes = {"n1.invalid"}};
    });
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(nodes_of_starts(), ElementsAre("n1.invalid,n2.invalid", "n2.invalid,n3.invalid"));
}

TEST_F(SpareNodes, AreNotForAProgramThatFails) {
    start_that_ends(3, "srun: error: n2.invalid: task 1: Exited with exit code 3\n");
    EXPECT_EQ(attempt(), 3);
    EXPECT_THAT(record_.restarts, IsEmpty());
    EXPECT_THAT(asked(), Not(HasSubstr("requeue")));
}

// Slurm would have queued the job again, were it not for --no-kill.
TEST_F(SpareNodes, AreUsedUpAndThenTheJobIsQueuedAgain) {
    start_that_ends(1, failure_of_n2);
    start_that_ends(1, "srun: error: Node failure on n3.invalid\n");
    EXPECT_EQ(attempt(), 1);
    EXPECT_EQ(record_.restarts.size(), 1U);
    EXPECT_EQ(record_.ended_by, EndedBy::node);
    EXPECT_TRUE(record_.runs_again());
    EXPECT_THAT(record_.retried->message, HasSubstr("because a node is lost"));
    EXPECT_THAT(asked(), HasSubstr("scontrol requeue 7\n"));
}

TEST_F(SpareNodes, AreNotUsedOnceTheJobIsBeingEnded) {
    view_->job.state = slurm::JobState::completing;
    start_that_ends(1, failure_of_n2);
    EXPECT_EQ(attempt(), 1);
    EXPECT_THAT(record_.restarts, IsEmpty());
}

TEST_F(SpareNodes, TakeThePlaceOfANodeWithoutARank) {
    steps_.answer(0);
    steps_.answers.emplace_back([](const StepRequest&) {
        return StepResult{
            .exit_code = 1,
            .messages = {},
            .stopped_by = {},
            .not_started = {{.task = 1, .node = "n2.invalid", .reason = "no such device"}}};
    });
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(nodes_of_starts(), ElementsAre("n1.invalid,n2.invalid", "n1.invalid,n3.invalid"));
}

// Breaks when the job runs on a node that has failed a check, or checks the others once more.
TEST_F(SpareNodes, TakeThePlaceOfANodeThatFailsACheckOfTheSite) {
    plan_.health = plan::HealthChecks{.directory = "/checks", .retries = 1};
    plan_.steps.insert(plan_.steps.begin(), step_of(plan::StepKind::preparation, 3, false));
    steps_.answers.emplace_back([this](const StepRequest&) {
        append("job/attempts/1.health.0.json",
               R"({"schema": "batchai-health/v1", "refused": "", "checks": [{"name": "disk",
                "outcome": "failed", "exitCode": 1, "line": "gone", "milliseconds": 5}]})");
        return StepResult{};
    });
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(phases(),
                ElementsAre("outputs 0", "health 0", "preparation 0", "wire-up 0", "ranks 0"));
    EXPECT_THAT(nodes_of_starts(), ElementsAre("n2.invalid,n3.invalid", "n2.invalid,n3.invalid"))
        << "preparation and ranks";
    EXPECT_THAT(record_.warnings,
                ElementsAre("the job goes on without n1.invalid, which has failed a health check"));
    EXPECT_THAT(record_.restarts, IsEmpty());
}

// Breaks when a job fails that Slurm would have queued again, because the spare node is bad as
// well.
TEST_F(SpareNodes, ThatCannotStartRanksLeaveTheLossOfTheNodeAsTheCause) {
    start_that_ends(1, failure_of_n2);
    steps_.answer(1, "srun: error: n3.invalid: task 1: Exited with exit code 1\n");  // the wire-up
    EXPECT_EQ(attempt(), 1);
    EXPECT_EQ(record_.restarts.size(), 1U);
    EXPECT_EQ(record_.ended_by, EndedBy::node);
    EXPECT_EQ(record_.failure->node, "n2.invalid");
    EXPECT_THAT(asked(), HasSubstr("scontrol requeue 7\n"));
}

// Breaks when the first ranks are told that others have run before them.
TEST_F(SpareNodes, ThatFailTheirCheckAreLeftOutBeforeTheFirstRanks) {
    plan_.allocation.options = {{"gres", "gpu:2", plan::Origin::vm_size}};
    answer_with_bad_gpus("2", 3);
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(phases(),
                ElementsAre("outputs 0", "gpu-check 1", "gpu-check 0", "wire-up 0", "ranks 0"));
    EXPECT_THAT(record_.restarts, IsEmpty());
    ASSERT_EQ(record_.warnings.size(), 1U);
    EXPECT_THAT(record_.warnings[0], HasSubstr("goes on without n3.invalid"));
    EXPECT_THAT(steps_.requests.back().environment, Not(Contains(HasSubstr("RESTART_COUNT="))));
}

// Breaks when each bad node costs a check of its own, or is no more than the first one's shadow.
TEST_F(SpareNodes, TakeThePlaceOfAllNodesThatFailTheirCheckAtOnce) {
    plan_.allocation.spare_nodes = 2;
    granted_.nodes.emplace_back("n4.invalid");
    view_->job.nodes.emplace_back("n4.invalid");
    slurm::NodeStatus fourth = view_->nodes.back();
    fourth.name = "n4.invalid";
    view_->nodes.push_back(fourth);
    plan_.allocation.options = {{"gres", "gpu:2", plan::Origin::vm_size}};
    answer_with_bad_gpus("12", 4);
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(phases(),
                ElementsAre("outputs 0", "gpu-check 1", "gpu-check 0", "wire-up 0", "ranks 0"));
    ASSERT_EQ(record_.warnings.size(), 1U);
    EXPECT_THAT(record_.warnings[0], HasSubstr("goes on without n2.invalid, n3.invalid"));
    EXPECT_THAT(nodes_of_starts(), ElementsAre("n1.invalid,n4.invalid"));
}

// Breaks when an idle node ends the job.
TEST_F(SpareNodes, ThatCannotMountAreLeftOutOfThePreparation) {
    mount_remote_storage();
    plan_.steps.insert(plan_.steps.begin(), step_of(plan::StepKind::preparation, 3, false));
    steps_.answers.emplace_back([this](const StepRequest&) {
        EXPECT_TRUE(record::write_failure_note(
            record::JobFiles(path("job")),
            {.code = "AZFMountError", .text = "no such share", .node = "n3.invalid"}));
        return StepResult{.exit_code = 1, .messages = {}, .stopped_by = {}};
    });
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(phases(),
                ElementsAre("outputs 0", "preparation 1", "preparation 0", "wire-up 0", "ranks 0"));
    EXPECT_THAT(nodes_of_starts(), Contains("n1.invalid,n2.invalid"));
    ASSERT_EQ(record_.warnings.size(), 1U);
    EXPECT_THAT(record_.warnings[0], HasSubstr("goes on without n3.invalid"));
}

TEST_F(SpareNodes, TakeThePlaceOfANodeThatIsLostDuringThePreparation) {
    plan_.steps.insert(plan_.steps.begin(), step_of(plan::StepKind::preparation, 3, false));
    steps_.answer(1, failure_of_n2);
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(phases(),
                ElementsAre("outputs 0", "preparation 1", "preparation 0", "wire-up 0", "ranks 0"));
    EXPECT_THAT(nodes_of_starts(), ElementsAre("n1.invalid,n3.invalid", "n1.invalid,n3.invalid"));
    EXPECT_THAT(record_.restarts, IsEmpty());
}

// A wrong key of the storage is no fault of a node.
TEST_F(SpareNodes, AreNotUsedUpByAFaultOfAllNodes) {
    mount_remote_storage();
    steps_.answer(0);
    steps_.answers.emplace_back([this](const StepRequest&) {
        for (const char* node : {"n1.invalid", "n2.invalid"})
            EXPECT_TRUE(record::write_failure_note(
                record::JobFiles(path("job")),
                {.code = "AZFMountError", .text = "the key is wrong", .node = node}));
        return StepResult{.exit_code = 1, .messages = {}, .stopped_by = {}};
    });
    attempt();
    EXPECT_THAT(record_.restarts, IsEmpty());
    EXPECT_EQ(record_.ended_by, EndedBy::storage);
}

// A job with "retry" and without spare nodes.
class RetryInAllocation : public SpareNodes {
  protected:
    void SetUp() override {
        SpareNodes::SetUp();
        plan_.allocation.spare_nodes = 0;
        granted_.nodes.pop_back();
        view_->job.nodes.pop_back();
        plan_.retry = plan::Retry{.on = {"75", "nodeFailure"}, .max = 2, .in_allocation = true};
        const auto now = base::now();
        view_->job.start = now - std::chrono::minutes(1);
        view_->job.end = now + std::chrono::minutes(9);
    }
    void ranks_end_with_75() {
        start_that_ends(75, "srun: error: n2.invalid: task 1: Exited with exit code 75\n");
    }
};

TEST_F(RetryInAllocation, StartsTheRanksAgainWhereTheyAre) {
    ranks_end_with_75();
    EXPECT_EQ(attempt(), 0);
    EXPECT_EQ(record_.restarts.size(), 1U);
    EXPECT_EQ(count().retries, 1);
    EXPECT_EQ(count().attempt, 1);
    EXPECT_THAT(asked(), Not(HasSubstr("requeue")));
    EXPECT_EQ(looks_, 1) << "the exit code says that no node was lost";
}

TEST_F(RetryInAllocation, CountsWithTheOtherRetries) {
    plan_.retry->max = 1;
    for (int start = 0; start < 2; ++start)
        ranks_end_with_75();
    EXPECT_EQ(attempt(), 75);
    EXPECT_EQ(record_.restarts.size(), 1U);
    EXPECT_FALSE(record_.runs_again());
    EXPECT_THAT(record_.retried->message, HasSubstr("has been run again once"));
    EXPECT_THAT(asked(), Not(HasSubstr("requeue")));
}

// Breaks when a fault that passes within minutes uses up all retries within seconds.
TEST_F(RetryInAllocation, IsNotForRanksThatFailAgainAtOnce) {
    for (int start = 0; start < 2; ++start)
        ranks_end_with_75();
    EXPECT_EQ(attempt(), 75);
    EXPECT_EQ(record_.restarts.size(), 1U);
    EXPECT_THAT(asked(), HasSubstr("scontrol requeue 7\n"));
    EXPECT_EQ(count().retries, 2);
}

// Breaks when a job whose node has broken fails, although it would have got another one.
TEST_F(RetryInAllocation, IsTakenBackIfTheRanksCannotStart) {
    ranks_end_with_75();
    steps_.answer(1, "srun: error: n2.invalid: task 1: Exited with exit code 1\n");  // the wire-up
    EXPECT_EQ(attempt(), 75);
    EXPECT_EQ(record_.ended_by, EndedBy::program);
    EXPECT_THAT(asked(), HasSubstr("scontrol requeue 7\n"));
    EXPECT_EQ(count().retries, 1);
}

// A node is drained when Slurm cannot end a task there, for instance.
TEST_F(RetryInAllocation, IsNotForADrainedNode) {
    view_->nodes[1].flags = {slurm::NodeFlag::drain};
    ranks_end_with_75();
    EXPECT_EQ(attempt(), 75);
    EXPECT_THAT(record_.restarts, IsEmpty());
    EXPECT_THAT(asked(), HasSubstr("scontrol requeue 7\n"));
}

// What the command has started may still run.
TEST_F(RetryInAllocation, IsNotForTheCommandOfACustomToolkit) {
    plan_.steps = {step_of(plan::StepKind::master, 1, false)};
    steps_.answer(75, "srun: error: n1.invalid: task 0: Exited with exit code 75\n");
    EXPECT_EQ(attempt(), 75);
    EXPECT_THAT(record_.restarts, IsEmpty());
    EXPECT_THAT(asked(), HasSubstr("scontrol requeue 7\n"));
}

// Breaks when a job is ended by a time limit that it would have had anew.
TEST_F(RetryInAllocation, IsNotForTheSecondHalfOfTheTime) {
    view_->job.start = base::now() - std::chrono::minutes(10);
    ranks_end_with_75();
    EXPECT_EQ(attempt(), 75);
    EXPECT_THAT(record_.restarts, IsEmpty());
    EXPECT_THAT(asked(), HasSubstr("scontrol requeue 7\n"));
}

TEST_F(RetryInAllocation, IsNotForAJobThatWantsToBeQueued) {
    plan_.retry->in_allocation = false;
    ranks_end_with_75();
    EXPECT_EQ(attempt(), 75);
    EXPECT_THAT(asked(), HasSubstr("scontrol requeue 7\n"));
}

TEST_F(RetryInAllocation, LeavesTheNodeThatIsExcludedForASpareOne) {
    plan_.retry->exclude_failed_nodes = true;
    ranks_end_with_75();
    EXPECT_EQ(attempt(), 75) << "without one, the job is queued";
    EXPECT_THAT(asked(), HasSubstr("scontrol requeue 7\n"));
    std::filesystem::remove_all(path("job"));
    std::filesystem::create_directories(path("job"));
    plan_.allocation.spare_nodes = 1;
    granted_.nodes.emplace_back("n3.invalid");
    view_->job.nodes.emplace_back("n3.invalid");
    steps_.requests.clear();
    ranks_end_with_75();
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(nodes_of_starts(), ElementsAre("n1.invalid,n2.invalid", "n1.invalid,n3.invalid"));
    EXPECT_EQ(count().retries, 1);
}

TEST_F(RetryInAllocation, IsNotForAnotherExitCode) {
    start_that_ends(74, "srun: error: n2.invalid: task 1: Exited with exit code 74\n");
    EXPECT_EQ(attempt(), 74);
    EXPECT_THAT(record_.restarts, IsEmpty());
}

// Breaks when ranks are started while a job of higher priority waits for their nodes.
TEST_F(RetryInAllocation, IsNotForAJobThatIsBeingPreempted) {
    is_preempted();
    ranks_end_with_75();
    attempt();
    EXPECT_THAT(record_.restarts, IsEmpty());
    EXPECT_EQ(record_.ended_by, EndedBy::preemption);
}

}  // namespace batchai::run
