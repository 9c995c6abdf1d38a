// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "run/attempt.hpp"
#include "run/phases/phase.hpp"
#include "scratch.hpp"

// An attempt with its real phases, and with steps that never start an srun.
namespace batchai::run {

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
    std::optional<int> stopped_by() override { return while_waiting(); }
    bool end_is_near() override { return noticed; }
    void leave_step() override { has_left_step = true; }
    base::Result<void> signal_tasks(int signal) override {
        if (!signals_reach_tasks) return base::fail("Slurm does not answer");
        signalled.push_back(signal);
        return {};
    }

    void answer(int exit_code, std::string messages = {}, std::optional<int> stopped_by = {}) {
        answers.emplace_back([=](const StepRequest&) {
            return StepResult{
                .exit_code = exit_code, .messages = messages, .stopped_by = stopped_by};
        });
    }

    std::deque<Answer> answers;
    std::vector<StepRequest> requests;
    bool noticed = false;
    bool has_left_step = false;
    bool signals_reach_tasks = true;
    std::vector<int> signalled;  // what the tasks have got
    // What happens while the attempt waits for something other than a step, and the signal that
    // then comes.
    std::function<std::optional<int>()> while_waiting = [] { return std::nullopt; };
};

class FakeOutside final : public OutsideWord {
  public:
    std::optional<record::EndedBy> why_job_ends() override { return why; }
    bool user_ends_job() override { return why == record::EndedBy::user; }
    std::optional<record::EndedBy> why;
};

inline plan::Step step_of(plan::StepKind kind, int processes, bool pmix) {
    plan::Step step;
    step.kind = kind;
    step.command = "true";
    step.processes = processes;
    step.pmix = pmix;
    step.stdout_name = kind == plan::StepKind::preparation ? "prep-%N.out" : "stdout.txt";
    step.stderr_name = kind == plan::StepKind::preparation ? "prep-%N.err" : "stderr.txt";
    return step;
}

// What an elastic job on n1, n2 and n3 has while its ranks run.
class ElasticJobTest : public ScratchTest {
  protected:
    // A test makes it once the plan is what it wants; the ranks run on these nodes.
    void make_context(const plan::Elastic& elastic, const std::vector<std::string>& nodes) {
        logs_.emplace(path("logs"));
        log_.emplace(*logs_, path("job/node"), granted_.nodes);
        context_.emplace(Context{.plan = plan_,
                                 .options = options_,
                                 .granted = granted_,
                                 .steps = steps_,
                                 .outside = outside_,
                                 .logs = *logs_,
                                 .log = *log_,
                                 .elastic = elastic,
                                 .ports = {},
                                 .place = place_on(nodes)});
    }
    // What a file has that need not be there.
    [[nodiscard]] std::string text_if_there(const std::string& name) const {
        return std::filesystem::exists(path(name)) ? text_of(name) : "";
    }

    plan::Plan plan_;
    RunOptions options_;
    slurm::ThisJob granted_{
        .job_id = "7", .restart = 0, .nodes = {"n1.invalid", "n2.invalid", "n3.invalid"}};
    FakeSteps steps_;
    FakeOutside outside_;
    std::optional<LogDirectory> logs_;
    std::optional<ExecutionLog> log_;
    std::optional<Context> context_;
};

// An attempt of a job of two ranks on two nodes. A test changes the plan, and looks at the record
// and the logs.
class PhasesTest : public ScratchTest {
  protected:
    void SetUp() override {
        ScratchTest::SetUp();
        plan_.identity.job = "job";
        plan_.allocation.nodes = 2;
        plan_.directories.job_directory = path("job");
        plan_.directories.plan_directory = path("job");
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
                        .elastic = elastic_,
                        .ports = {},
                        .place = first_place(plan_.allocation, granted_.nodes)};
        record::Attempt record;
        record.number = context.attempt();
        record.nodes = granted_.nodes;
        Journal journal(context.files(), record);
        const int exit_code =
            run_attempt(context, journal, slurm::Client(std::chrono::seconds(5)), slurm_);
        auto written = record::latest_attempt(context.files());
        EXPECT_TRUE(written && *written);
        record_ = written.value().value();
        EXPECT_EQ(record_.exit_code, exit_code);
        return exit_code;
    }
    // Has the next step end so after rank 1 has written to its standard error.
    void answer_of_rank_1(const std::string& standard_error, int exit_code,
                          const std::string& messages) {
        steps_.answers.emplace_back([=, this](const StepRequest&) {
            append("job/attempts/1.stderr-1.txt", standard_error);
            return StepResult{.exit_code = exit_code, .messages = messages, .stopped_by = {}};
        });
    }
    // n3, which is the job's as far as Slurm knows.
    void give_a_spare_node() {
        plan_.allocation.spare_nodes = 1;
        granted_.nodes = {"n1.invalid", "n2.invalid", "n3.invalid"};
        view_.emplace();
        view_->job.state = slurm::JobState::running;
        for (const std::string& name : granted_.nodes) {
            view_->job.nodes.push_back(name);
            slurm::NodeStatus& status = view_->nodes.emplace_back();
            status.name = name;
            status.state = slurm::NodeBaseState::allocated;
        }
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
    slurm::ThisJob granted_{.job_id = "7", .restart = 0, .nodes = {"n1.invalid", "n2.invalid"}};
    std::optional<plan::Elastic> elastic_;
    FakeSteps steps_;
    FakeOutside outside_;
    // Slurm does not answer, and no time passes.
    SlurmCalls slurm_{.look = [this](std::chrono::seconds) -> base::Result<SlurmsView> {
                          ++looks_;
                          if (!view_) return base::fail("no answer");
                          return *view_;
                      },
                      .keep_nodes = [this](const Nodes& nodes) -> base::Result<void> {
                          kept_ = nodes;
                          return refuses_ ? base::Result<void>(base::fail("busy"))
                                          : base::Result<void>();
                      },
                      .pause = [](std::chrono::milliseconds) {}};
    std::optional<SlurmsView> view_;
    bool refuses_ = false;
    int looks_ = 0;
    Nodes kept_;
    record::Attempt record_;
};

}  // namespace batchai::run
