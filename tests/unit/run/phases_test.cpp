// SPDX-License-Identifier: GPL-2.0-or-later
// The phases and their order. Those of the image and of stored logs have files of their own.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attempt_of_fakes.hpp"
#include "base/beneath.hpp"
#include "node/keeper/registry.hpp"
#include "record/node_notes.hpp"
#include "record/rank_logs.hpp"

namespace batchai::run {

namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

}  // namespace

TEST_F(PhasesTest, RunInOrderAndAreRecorded) {
    plan_.steps.insert(plan_.steps.begin(), step_of(plan::StepKind::preparation, 2, false));
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(phases(), ElementsAre("outputs 0", "preparation 0", "wire-up 0", "ranks 0"));
    EXPECT_FALSE(record_.failure);
    ASSERT_EQ(steps_.requests.size(), 3U);
    EXPECT_THAT(steps_.requests[0].arguments, Contains("--mpi=none"));
    EXPECT_THAT(steps_.requests[1].arguments, Contains("--expect"));
    EXPECT_THAT(steps_.requests[1].arguments, Contains("--held"));
    EXPECT_EQ(steps_.requests[1].held_tasks, 2);
    EXPECT_EQ(steps_.requests[2].held_tasks, 0);
    EXPECT_THAT(steps_.requests[2].arguments, Contains("--kill-on-bad-exit=1"));
    EXPECT_EQ(text_of("job/hostfile"),
              "n1.invalid slots=1 max_slots=1\nn2.invalid slots=1 max_slots=1\n");
    EXPECT_THAT(text_of("logs/execution-n2.invalid.log"), HasSubstr("ended with exit code 0"));
}

// Breaks when the output of one rank gets into the file of another one, or nowhere.
TEST_F(PhasesTest, EachRankMayHaveItsOwnFilesInTheLogs) {
    plan_.steps[0].stdout_name = "stdout-%t.txt";
    plan_.steps[0].stderr_name = "stderr-%t.txt";
    steps_.answer(0);  // the wire-up check
    steps_.answers.emplace_back([this](const StepRequest& request) {
        EXPECT_THAT(request.arguments,
                    Contains("--output=" + path("job/attempts/1.stdout-%t.txt")));
        EXPECT_THAT(request.arguments, Contains("--error=" + path("job/attempts/1.stderr-%t.txt")));
        append("job/attempts/1.stdout-0.txt", "zero\n");
        append("job/attempts/1.stdout-1.txt", "one\n");
        append("job/attempts/1.stderr-1.txt", "ValueError: one is unhappy\n");
        return StepResult{.exit_code = 3,
                          .messages = "srun: error: n2.invalid: task 1: Exited with exit code 3\n",
                          .stopped_by = {}};
    });
    EXPECT_EQ(attempt(), 3);
    EXPECT_EQ(record_.failure->rank, 1);
    EXPECT_EQ(text_of("logs/stdout-0.txt"), "zero\n");
    EXPECT_EQ(text_of("logs/stdout-1.txt"), "one\n");
    EXPECT_EQ(text_of("logs/stderr-1.txt"), "ValueError: one is unhappy\n");
    EXPECT_EQ(text_of("logs/stderr-0.txt"),
              "srun: error: n2.invalid: task 1: Exited with exit code 3\n");
    EXPECT_FALSE(std::filesystem::exists(path("logs/stdout.txt")));
    EXPECT_FALSE(std::filesystem::exists(path("logs/stderr.txt")));
}

// Breaks when the failure of a start is told as one of the program, or not where it was.
TEST_F(PhasesTest, ARankThatDidNotStartIsNamed) {
    steps_.answer(0);  // the wire-up check
    steps_.answers.emplace_back([](const StepRequest& request) {
        EXPECT_EQ(request.starts->node_of_task,
                  (std::vector<std::string>{"n1.invalid", "n2.invalid"}));
        EXPECT_EQ(request.starts->error_files.size(), 2U);
        EXPECT_THAT(request.environment, Contains("BATCHAI_STARTS=1"));
        return StepResult{.exit_code = 1,
                          .messages = {},
                          .stopped_by = {},
                          .not_started = {{1, "n2.invalid", "no room"}}};
    });
    EXPECT_EQ(attempt(), 1);
    EXPECT_EQ(record_.ended_by, record::EndedBy::start);
    EXPECT_EQ(record_.failure->code, "JobStartFailed");
    EXPECT_EQ(record_.failure->rank, 1);
    EXPECT_EQ(record_.failure->node, "n2.invalid");
    EXPECT_EQ(record_.failure->first_error_line, "rank 1 on n2.invalid did not start: no room");
    EXPECT_THAT(text_of("logs/execution-n1.invalid.log"),
                HasSubstr("the job has failed: The job could not be started: rank 1 on "
                          "n2.invalid did not start: no room\n"));
}

// Breaks when the program's failure hides that its output found no room.
TEST_F(PhasesTest, AFullDiskIsNamedBesideTheFailure) {
    steps_.answer(0);  // the wire-up check
    steps_.answers.emplace_back([](const StepRequest&) {
        return StepResult{.exit_code = 3,
                          .messages = "srun: error: n2.invalid: task 1: Exited with exit code 3\n",
                          .stopped_by = {},
                          .no_room = "/attempts: No space left on device"};
    });
    EXPECT_EQ(attempt(), 3);
    EXPECT_EQ(record_.ended_by, record::EndedBy::program);
    EXPECT_EQ(record_.failure->first_error_line,
              "there is no room for output: /attempts: No space left on device");
}

// Breaks when output is lost or copied twice because the job was queued again.
TEST_F(PhasesTest, EachRanksFilesHaveTheOutputOfAllAttempts) {
    plan_.steps[0].stdout_name = "stdout-%t.txt";
    plan_.steps[0].stderr_name = "stderr-%t.txt";
    for (const char* number : {"1", "2"}) {
        steps_.answer(0);  // the wire-up check
        steps_.answers.emplace_back([this, number](const StepRequest&) {
            append(std::string("job/attempts/") + number + ".stdout-1.txt",
                   std::string("attempt ") + number + "\n");
            return StepResult{};
        });
        EXPECT_EQ(attempt(), 0);
        EXPECT_FALSE(
            std::filesystem::exists(path(std::string("job/attempts/") + number + ".stdout-1.txt")));
        ++granted_.restart;
    }
    EXPECT_EQ(text_of("logs/stdout-1.txt"), "attempt 1\nattempt 2\n");
}

// Breaks when a rank has no files of its own besides those that the ranks share, when it is said to
// be on another node, or when its output stays in the job's directory, too.
TEST_F(PhasesTest, EachRanksOutputIsInTheLogsOnceMore) {
    steps_.answer(0);  // the wire-up check
    steps_.answers.emplace_back([this](const StepRequest& request) {
        append("job/attempts/1.stdout-0.txt", "zero\n");
        append("job/attempts/1.stdout-1.txt", "one\n");
        request.tick();
        EXPECT_TRUE(record::read_rank_places(record::JobFiles(path("job")), "1"));
        append("job/attempts/1.stderr-0.txt", "complaint");
        return StepResult{};
    });
    EXPECT_EQ(attempt(), 0);
    EXPECT_EQ(text_of("logs/stdout.txt"), "zero\none\n");
    EXPECT_EQ(text_of("logs/stderr.txt"), "complaint");
    EXPECT_EQ(text_of("logs/ranks/1/stdout-0.txt"), "zero\n");
    EXPECT_EQ(text_of("logs/ranks/1/stdout-1.txt"), "one\n");
    EXPECT_EQ(text_of("logs/ranks/1/stderr-0.txt"), "complaint");
    EXPECT_FALSE(std::filesystem::exists(path("logs/ranks/1/stderr-1.txt")));
    EXPECT_FALSE(std::filesystem::exists(path("job/attempts/1.stdout-0.txt")));
    EXPECT_FALSE(std::filesystem::exists(path("job/attempts/1.stderr-1.txt")));
    const record::JobFiles files(path("job"));
    EXPECT_EQ(record::read_rank_places(files, "1")->nodes, granted_.nodes);
    const auto pieces = record::PieceReader(files, "1").read(0, 10).value();
    ASSERT_EQ(pieces.size(), 3U);
    EXPECT_EQ(pieces[1].rank, 1U);
    EXPECT_EQ(pieces[1].length, 4U);
    EXPECT_EQ(pieces[2].stream, record::RankStream::error);
}

// Breaks when `job logs` has nothing to read because the logs are local to a node.
TEST_F(PhasesTest, OutputThatIsNotInLastingLogsIsKept) {
    plan_.directories.stdouterr_host = "";
    steps_.answer(0);  // the wire-up check
    steps_.answers.emplace_back([this](const StepRequest&) {
        append("job/attempts/1.stdout-1.txt", "one\n");
        return StepResult{};
    });
    EXPECT_EQ(attempt(), 0);
    EXPECT_EQ(text_of("logs/ranks/1/stdout-1.txt"), "one\n");
    EXPECT_EQ(text_of("job/attempts/1.stdout-1.txt"), "one\n");
}

// Breaks when `batchai run`, called twice in an allocation of salloc, copies the first run's output
// again or blames a rank for a report of then.
TEST_F(PhasesTest, WhatAnEarlierRunLeftInTheSameAllocationDoesNotCount) {
    append("job/attempts/1.stdout-0.txt", "earlier\n");
    append("job/attempts/1.stderr-1.txt", "ValueError: earlier\n");
    append("job/attempts/1.refused.1.txt", "earlier refusal\n");
    steps_.answer(0);  // the wire-up check
    steps_.answers.emplace_back([this](const StepRequest&) {
        append("job/attempts/1.stdout-0.txt", "now\n");
        return StepResult{.exit_code = 3,
                          .messages = "srun: error: n2.invalid: task 1: Exited with exit code 3\n",
                          .stopped_by = {}};
    });
    EXPECT_EQ(attempt(), 3);
    EXPECT_EQ(text_of("logs/stdout.txt"), "now\n");
    EXPECT_THAT(text_of("logs/stderr.txt"), Not(HasSubstr("earlier")));
    EXPECT_EQ(record_.failure->rank, 1);
    EXPECT_THAT(record_.failure->first_error_line, Not(HasSubstr("earlier")));
}

TEST_F(PhasesTest, AFailedWireUpCheckIsToldInTheFirstRanksFile) {
    plan_.steps[0].stdout_name = "stdout-%t.txt";
    plan_.steps[0].stderr_name = "stderr-%t.txt";
    steps_.answer(1, "srun: error: n1.invalid: task 0: Exited with exit code 1\n");
    EXPECT_EQ(attempt(), 1);
    EXPECT_EQ(text_of("logs/stderr-0.txt"),
              "srun: error: n1.invalid: task 0: Exited with exit code 1\n");
    EXPECT_FALSE(std::filesystem::exists(path("logs/stderr-%t.txt")));
}

TEST_F(PhasesTest, OutputsThatCannotBeMadeEndTheJob) {
    append("logs", "a file where the directory should be");
    EXPECT_EQ(attempt(), 1);
    EXPECT_THAT(phases(), ElementsAre("outputs 1"));
    EXPECT_EQ(record_.ended_by, record::EndedBy::start);
    EXPECT_EQ(record_.failure->phase, "outputs");
    EXPECT_EQ(record_.failure->node, "n1.invalid");
    EXPECT_THAT(steps_.requests, IsEmpty());
}

TEST_F(PhasesTest, AFailedPreparationNamesTheNodeAndItsWords) {
    plan_.steps.insert(plan_.steps.begin(), step_of(plan::StepKind::preparation, 2, false));
    steps_.answers.emplace_back([this](const StepRequest&) {
        append("job/attempts/1.prep-1.err", "pip: command not found\n");
        return StepResult{
            .exit_code = 127,
            .messages = "srun: error: n2.invalid: task 1: Exited with exit code 127\n",
            .stopped_by = {}};
    });
    EXPECT_EQ(attempt(), 127);
    EXPECT_THAT(phases(), ElementsAre("outputs 0", "preparation 127"));
    EXPECT_EQ(record_.ended_by, record::EndedBy::preparation);
    EXPECT_EQ(record_.failure->code, "JobPreparationFailed");
    EXPECT_EQ(record_.failure->node, "n2.invalid");
    EXPECT_FALSE(record_.failure->rank);
    EXPECT_EQ(record_.failure->first_error_line, "pip: command not found");
    EXPECT_EQ(text_of("logs/prep-n2.invalid.err"), "pip: command not found\n");
    EXPECT_EQ(text_of("logs/prep-n1.invalid.err"), "");
}

TEST_F(PhasesTest, AFailedSetupOfANodeComesBeforePreparationAndHasItsOwnCause) {
    plan_.node_setup = plan::NodeSetup{
        .command = "make-scratch 'x'", .key = "0123456789abcdef", .log_directory = path("setup")};
    plan_.steps.insert(plan_.steps.begin(), step_of(plan::StepKind::preparation, 2, false));
    steps_.answers.emplace_back([this](const StepRequest&) {
        append("job/attempts/1.node_setup-stderr-1.txt", "error: no scratch disk\n");
        return StepResult{.exit_code = 7,
                          .messages = "srun: error: n2.invalid: task 1: Exited with exit code 7\n",
                          .stopped_by = {}};
    });
    EXPECT_EQ(attempt(), 7);
    EXPECT_THAT(phases(), ElementsAre("outputs 0", "node-setup 7"));
    EXPECT_EQ(record_.ended_by, record::EndedBy::node_setup);
    EXPECT_EQ(record_.failure->code, "NodeSetupFailed");
    EXPECT_EQ(record_.failure->node, "n2.invalid");
    EXPECT_EQ(record_.failure->first_error_line, "error: no scratch disk");
    EXPECT_EQ(text_of("setup/stderr-n2.invalid.txt"), "error: no scratch disk\n");
    EXPECT_THAT(steps_.requests.front().environment,
                Not(Contains(HasSubstr("BATCHAI_IDENTITY=root"))));
}

TEST_F(PhasesTest, ANodesNoteComesBeforeTheStepsExitCode) {
    plan_.steps.insert(plan_.steps.begin(), step_of(plan::StepKind::preparation, 2, false));
    steps_.answers.emplace_back([this](const StepRequest&) {
        record::write_failure_note(
            record::JobFiles(path("job")),
            {.code = "AZFMountError", .text = "share: no route\nhint: ask", .node = "n2.invalid"});
        return StepResult{.exit_code = 1, .messages = {}, .stopped_by = {}};
    });
    EXPECT_EQ(attempt(), -1);
    EXPECT_EQ(record_.ended_by, record::EndedBy::storage);
    EXPECT_EQ(record_.failure->code, "AZFMountError");
    EXPECT_EQ(record_.failure->node, "n2.invalid");
    EXPECT_EQ(record_.failure->first_error_line, "share: no route");
}

TEST_F(PhasesTest, AStepsDataAreWaitedForBeforeTheNextStep) {
    mount_remote_storage();
    const record::JobFiles files(path("job"));
    std::thread node;
    steps_.answers.emplace_back([&](const StepRequest&) {
        record::StorageNote note{.node = "n1.invalid",
                                 .slurm_job_id = "7",
                                 .until = base::now() + std::chrono::seconds(60)};
        record::write_storage_note(files, note);
        node = std::thread([files, note] {
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
            record::write_failure_note(
                files,
                {.code = record::data_not_written, .text = "a is not there", .node = note.node});
            record::remove_storage_note(note);
        });
        return StepResult{.exit_code = 0, .messages = {}, .stopped_by = {}};
    });
    plan_.steps.insert(plan_.steps.begin(), step_of(plan::StepKind::preparation, 2, false));
    EXPECT_EQ(attempt(), -1);
    node.join();
    EXPECT_THAT(phases(), ElementsAre("outputs 0", "preparation 0"));
    EXPECT_EQ(record_.failure->code, record::data_not_written);
    EXPECT_EQ(record_.failure->first_error_line, "a is not there");
}

TEST_F(PhasesTest, ANodeThatStopsStoringWithoutAWordFailsTheJob) {
    mount_remote_storage();
    const record::JobFiles files(path("job"));
    record::StorageNote note{
        .node = "n2.invalid", .slurm_job_id = "7", .until = base::now() - std::chrono::seconds(60)};
    record::StorageNote of_another_job{
        .node = "n1.invalid", .slurm_job_id = "78", .until = base::now() + std::chrono::hours(1)};
    steps_.answers.emplace_back([&](const StepRequest&) {
        record::write_storage_note(files, note);
        record::write_storage_note(files, of_another_job);
        return StepResult{.exit_code = 0, .messages = {}, .stopped_by = {}};
    });
    plan_.steps.insert(plan_.steps.begin(), step_of(plan::StepKind::preparation, 2, false));
    EXPECT_EQ(attempt(), -1);
    EXPECT_EQ(record_.failure->code, record::data_not_written);
    EXPECT_EQ(record_.failure->node, "n2.invalid");
}

TEST_F(PhasesTest, TheFailedRankIsNamed) {
    steps_.answer(0);
    answer_of_rank_1("Traceback (most recent call last):\n  x\nKeyError: 'a'\n", 1,
                     "srun: error: n2.invalid: task 1: Exited with exit code 1\n");
    EXPECT_EQ(attempt(), 1);
    EXPECT_THAT(phases(), ElementsAre("outputs 0", "wire-up 0", "ranks 1"));
    EXPECT_EQ(record_.failure->code, "JobFailed");
    EXPECT_EQ(record_.failure->rank, 1);
    EXPECT_EQ(record_.failure->node, "n2.invalid");
    EXPECT_EQ(record_.failure->first_error_line, "KeyError: 'a'");
    EXPECT_THAT(text_of("logs/stderr.txt"), HasSubstr("KeyError: 'a'\n"));
    EXPECT_THAT(text_of("logs/stderr.txt"), HasSubstr("task 1: Exited"));
    EXPECT_THAT(text_of("logs/execution-n1.invalid.log"),
                HasSubstr("guessed from standard error, because rank 1 has no report"));
}

TEST_F(PhasesTest, RanksThatEndWellInSpiteOfTermHaveSucceeded) {
    steps_.answer(0);
    steps_.answer(0, {}, SIGTERM);
    EXPECT_EQ(attempt(), 0);
    EXPECT_FALSE(record_.failure);
}

TEST_F(PhasesTest, TermDuringTheRanksIsNoFailureOfARank) {
    steps_.answer(0);
    steps_.answer(143, "srun: error: n1.invalid: task 0: Terminated\n", SIGTERM);
    EXPECT_EQ(attempt(), 128 + SIGTERM);
    EXPECT_EQ(record_.failure->signal, SIGTERM);
    EXPECT_FALSE(record_.failure->rank);
    EXPECT_EQ(record_.ended_by, record::EndedBy::user);
}

TEST_F(PhasesTest, WhatSlurmSaysOfTheEndCountsForRanksThatWereKilled) {
    outside_.why = record::EndedBy::time_limit;
    steps_.answer(0);
    // The ranks may be dead before TERM has come to us.
    steps_.answer(143, "srun: error: n1.invalid: task 0: Terminated\n");
    EXPECT_EQ(attempt(), 128 + SIGTERM);
    EXPECT_EQ(record_.ended_by, record::EndedBy::time_limit);
    EXPECT_EQ(record_.failure->code, "JobTimedOut");

    steps_.answer(0);
    steps_.answer(3, "srun: error: n1.invalid: task 0: Exited with exit code 3\n");
    EXPECT_EQ(attempt(), 3);
    EXPECT_EQ(record_.ended_by, record::EndedBy::program);
}

TEST_F(PhasesTest, ARankOutOfMemoryIsNamed) {
    steps_.answer(0);
    steps_.answer(137, "srun: error: n2.invalid: task 1: Out Of Memory\n");
    EXPECT_EQ(attempt(), 137);
    EXPECT_EQ(record_.ended_by, record::EndedBy::memory);
    EXPECT_EQ(record_.failure->code, "JobOutOfMemory");
    EXPECT_EQ(record_.failure->rank, 1);
}

// Slurm without cgroups: srun's messages are those of a step that somebody cancelled.
TEST_F(PhasesTest, AStepThatSlurmEndedForItsMemoryNamesTheNode) {
    const std::string killed =
        "srun: Job step aborted: Waiting up to 7 seconds for job step to finish.\n"
        "srun: error: n1.invalid: task 0: Killed\n"
        "srun: error: n2.invalid: task 1: Killed\n";
    steps_.answer(0);
    answer_of_rank_1(std::string(1UL << 20U, '.') +
                         "\nslurmstepd-n2: error: StepId=7.1 exceeded memory limit (2 > 1), being "
                         "killed\n",
                     137, killed);
    EXPECT_EQ(attempt(), 137);
    EXPECT_EQ(record_.ended_by, record::EndedBy::memory);
    EXPECT_EQ(record_.failure->code, "JobOutOfMemory");
    EXPECT_EQ(record_.failure->node, "n2");
    EXPECT_FALSE(record_.failure->rank);
    EXPECT_THAT(record_.failure->first_error_line, HasSubstr("exceeded memory limit (2 > 1)"));
}

TEST_F(PhasesTest, TheWireUpCheckIsMadeAgainOnlyWhenPmixDidNotAnswerOrConnect) {
    const std::string silent = "srun: error: n1.invalid: task 0: Exited with exit code 75\n";
    steps_.answer(75, silent);
    steps_.answer(75, silent);
    EXPECT_EQ(attempt(), 0);
    EXPECT_EQ(steps_.requests.size(), 4U);

    steps_.requests.clear();
    steps_.answer(137,
                  "slurmstepd-h3: error:  mpi/pmix_v4: _tcp_connect: h3 [1]: "
                  "pmixp_dconn_tcp.c:141: Cannot establish the connection\n"
                  "srun: Job step aborted: Waiting up to 7 seconds for job step to finish.\n"
                  "srun: error: h3: task 1: Killed\n");
    EXPECT_EQ(attempt(), 0);
    EXPECT_EQ(steps_.requests.size(), 3U);

    steps_.requests.clear();
    steps_.answer(1, "mpi_bridge_wireup: the server is too old\n");
    EXPECT_EQ(attempt(), 1);
    EXPECT_EQ(steps_.requests.size(), 1U);
    EXPECT_EQ(record_.failure->code, "WireUpFailed");
    EXPECT_THAT(phases(), Not(Contains("ranks 0")));
}

TEST_F(PhasesTest, LogsOnTheHostItselfGoWithTheRunUnlessStepsUseTheirDirectory) {
    auto& directories = plan_.directories;
    directories.node_root = path("node-root");
    directories.job_temp = path("node-root/job");
    directories.stdouterr = directories.stdouterr_host = path("node-root/job/logs");
    append("in-the-way", "");
    plan_.outputs = {{.id = "MODEL", .path = "/m", .path_host = path("in-the-way/model")}};
    EXPECT_EQ(attempt(), 1);
    EXPECT_THAT(phases(), ElementsAre("outputs 1", "clean-up 0"));
    EXPECT_FALSE(std::filesystem::exists(directories.job_temp));

    plan_.outputs.clear();
    EXPECT_EQ(attempt(), 0) << "without steps on this host, such as a login host";
    EXPECT_THAT(phases(), ElementsAre("outputs 0", "wire-up 0", "ranks 0", "clean-up 0"));
    EXPECT_FALSE(std::filesystem::exists(directories.job_temp));

    const auto node_root = base::open_private_directory(directories.node_root);
    ASSERT_TRUE(node_root && node::claim(*node_root, granted_.job_id, "job"));
    EXPECT_EQ(attempt(), 0) << "with steps";
    EXPECT_TRUE(std::filesystem::exists(directories.stdouterr_host)) << "for the epilog";
}

TEST_F(PhasesTest, OneProcessHasNoWireUpCheck) {
    plan_.steps = {step_of(plan::StepKind::master, 1, false)};
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(phases(), ElementsAre("outputs 0", "ranks 0"));
}

// Breaks when a job of Horovod waits for a step that it does not need, or when its ranks may each
// take themselves for the only one.
TEST_F(PhasesTest, RanksThatTellOfBadWiringHaveNoCheckUnlessTheSiteWiresNone) {
    plan_.steps[0].tells_bad_wiring = true;
    for (const char* mpi : {"pmix", "pmix_v4", "pmi2"}) {
        plan_.mpi = mpi;
        EXPECT_EQ(attempt(), 0);
        EXPECT_THAT(phases(), ElementsAre("outputs 0", "ranks 0")) << mpi;
    }
    plan_.mpi = "none";
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(phases(), ElementsAre("outputs 0", "wire-up 0", "ranks 0"));
}

TEST_F(PhasesTest, StepsThatCannotStartAreToldSo) {
    steps_.answers.emplace_back(
        [](const StepRequest&) { return base::fail("cannot be started", "srun"); });
    EXPECT_EQ(attempt(), 1);
    EXPECT_THAT(text_of("logs/stderr.txt"), HasSubstr("srun: cannot be started"));
}

}  // namespace batchai::run
