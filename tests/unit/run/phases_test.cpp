// SPDX-License-Identifier: GPL-2.0-or-later
// The phases and their order, with steps that never start an srun.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <deque>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "record/node_notes.hpp"
#include "run/attempt.hpp"
#include "run/phases/phase.hpp"
#include "scratch.hpp"

namespace batchai::run {

namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Answers each step with the next of the results that a test has laid down, else with success.
class FakeSteps final : public StepRunner {
  public:
    using Answer = std::function<base::Result<StepResult>(const StepRequest&)>;

    base::Result<StepResult> run(const StepRequest& request) override {
        requests.push_back(request);
        if (answers.empty()) return StepResult{};
        const Answer answer = std::move(answers.front());
        answers.pop_front();
        return answer(request);
    }
    std::optional<int> stopped_by() override { return std::nullopt; }

    void answer(int exit_code, std::string messages = {}, std::optional<int> stopped_by = {}) {
        answers.emplace_back([=](const StepRequest&) {
            return StepResult{
                .exit_code = exit_code, .messages = messages, .stopped_by = stopped_by};
        });
    }

    std::deque<Answer> answers;
    std::vector<StepRequest> requests;
};

class FakeOutside final : public OutsideWord {
  public:
    std::optional<record::EndedBy> why_job_ends() override { return why; }
    std::optional<record::EndedBy> why;
};

plan::Step step_of(plan::StepKind kind, int processes, bool pmix) {
    plan::Step step;
    step.kind = kind;
    step.command = "true";
    step.processes = processes;
    step.pmix = pmix;
    step.stdout_name = kind == plan::StepKind::preparation ? "prep-%N.out" : "stdout.txt";
    step.stderr_name = kind == plan::StepKind::preparation ? "prep-%N.err" : "stderr.txt";
    return step;
}

}  // namespace

class PhasesTest : public ScratchTest {
  protected:
    void SetUp() override {
        ScratchTest::SetUp();
        plan_.identity.job = "job";
        plan_.allocation.nodes = 2;
        plan_.directories.job_directory = path("job");
        plan_.directories.job_temp = "/nowhere";
        plan_.directories.stdouterr = path("logs");
        plan_.directories.stdouterr_host = path("logs");
        plan_.directories.shared_job_temp = path("job/shared");
        plan_.steps = {step_of(plan::StepKind::ranks, 2, true)};
    }

    int attempt() {
        LogDirectory logs(output_directory(plan_));
        ExecutionLog log(logs, path("job/node"), granted_.nodes);
        Context context{.plan = plan_,
                        .options = options_,
                        .granted = granted_,
                        .steps = steps_,
                        .outside = outside_,
                        .logs = logs,
                        .log = log,
                        .elastic = {},
                        .ports = {},
                        .place = place_on(granted_.nodes)};
        record::Attempt record;
        record.nodes = granted_.nodes;
        Journal journal(context.files(), record);
        const int exit_code = run_attempt(context, journal);
        auto written = record::latest_attempt(context.files());
        EXPECT_TRUE(written && *written);
        record_ = written.value().value();
        EXPECT_EQ(record_.exit_code, exit_code);
        return exit_code;
    }
    [[nodiscard]] std::vector<std::string> phases() const {
        std::vector<std::string> out;
        for (const record::Phase& phase : record_.phases) {
            EXPECT_TRUE(phase.end) << phase.name;
            out.push_back(phase.name + " " + std::to_string(phase.exit_code));
        }
        return out;
    }

    void mount_remote_storage() {
        plan_.directories.job_mount_root = "/mounts";
        plan::Mount& mount = plan_.mounts.emplace_back();
        mount.target = "share";
        mount.remote.emplace();
    }

    plan::Plan plan_;
    RunOptions options_{.plan_path = "/plan", .digest = "d", .images_in_use = {}};
    Granted granted_{.job_id = "7", .restart = 0, .nodes = {"n1.invalid", "n2.invalid"}};
    FakeSteps steps_;
    FakeOutside outside_;
    record::Attempt record_;
};

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
    append("job/attempts/1.prep-n2.invalid.err", "pip: command not found\n");
    steps_.answer(127, "srun: error: n2.invalid: task 1: Exited with exit code 127\n");
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
    append("job/attempts/1.stderr-1.txt",
           "Traceback (most recent call last):\n  x\nKeyError: 'a'\n");
    steps_.answer(1, "srun: error: n2.invalid: task 1: Exited with exit code 1\n");
    EXPECT_EQ(attempt(), 1);
    EXPECT_THAT(phases(), ElementsAre("outputs 0", "wire-up 0", "ranks 1"));
    EXPECT_EQ(record_.failure->code, "JobFailed");
    EXPECT_EQ(record_.failure->rank, 1);
    EXPECT_EQ(record_.failure->node, "n2.invalid");
    EXPECT_EQ(record_.failure->first_error_line, "KeyError: 'a'");
    EXPECT_THAT(text_of("logs/stderr.txt"), HasSubstr("KeyError: 'a'\n"));
    EXPECT_THAT(text_of("logs/stderr.txt"), HasSubstr("task 1: Exited"));
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

TEST_F(PhasesTest, TheWireUpCheckIsMadeAgainOnlyWhenPmixDidNotAnswer) {
    const std::string silent = "srun: error: n1.invalid: task 0: Exited with exit code 75\n";
    steps_.answer(75, silent);
    steps_.answer(75, silent);
    EXPECT_EQ(attempt(), 0);
    EXPECT_EQ(steps_.requests.size(), 4U);

    steps_.requests.clear();
    steps_.answer(1, "mpi_bridge_wireup: the server is too old\n");
    EXPECT_EQ(attempt(), 1);
    EXPECT_EQ(steps_.requests.size(), 1U);
    EXPECT_EQ(record_.failure->code, "WireUpFailed");
    EXPECT_THAT(phases(), Not(Contains("ranks 0")));
}

TEST_F(PhasesTest, LogsOnTheNodeItselfGoWithAJobThatNeverCameToASandbox) {
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
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(phases(), ElementsAre("outputs 0", "wire-up 0", "ranks 0"));
    EXPECT_TRUE(std::filesystem::exists(directories.stdouterr_host));
}

TEST_F(PhasesTest, OneProcessHasNoWireUpCheck) {
    plan_.steps = {step_of(plan::StepKind::master, 1, false)};
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(phases(), ElementsAre("outputs 0", "ranks 0"));
}

TEST_F(PhasesTest, StepsThatCannotStartAreToldSo) {
    steps_.answers.emplace_back(
        [](const StepRequest&) { return base::fail("cannot be started", "srun"); });
    EXPECT_EQ(attempt(), 1);
    EXPECT_THAT(text_of("logs/stderr.txt"), HasSubstr("srun: cannot be started"));
}

}  // namespace batchai::run
