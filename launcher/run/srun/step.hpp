// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <csignal>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/process.hpp"
#include "plan/plan.hpp"
#include "run/srun/starts.hpp"

namespace batchai::run {

struct StepResult {
    // Of srun, as a shell reports it. A step of which a task has not started does not end with 0,
    // although srun does.
    int exit_code = 0;
    std::string messages;                   // srun's standard error
    std::optional<int> stopped_by;          // TERM or INT that we received while the step ran
    bool ended_on_request = false;          // StepRequest::enough returned true
    std::vector<std::string> dead_nodes{};  // what StepRequest::dead_nodes has returned
    std::vector<NotStarted> not_started{};
    // Tasks of which Slurm says that they have started, while the plugin has not said so.
    std::vector<int> unconfirmed{};
    // Why the output of a step that failed finds no room; empty: it does (why_no_room()).
    std::string no_room{};
    std::optional<int> srun_killed_by{};  // the signal of which srun itself has died
};

// One run of srun.
struct StepRequest {
    base::Arguments arguments;
    base::Environment environment;
    // Time in which Slurm has suspended the job does not count. 0: only the job's own time limit.
    std::chrono::seconds deadline{0};
    std::function<void()> tick = [] {};  // called about four times a second
    // Called after each tick. Once it returns true, Slurm kills the step's tasks.
    std::function<bool()> enough = [] { return false; };
    // Called after each tick with what srun has said so far. Once it returns true, Slurm kills the
    // step's tasks because one of them has failed, as --kill-on-bad-exit=1 would have it.
    std::function<bool(std::string_view messages)> has_failed = [](std::string_view) {
        return false;
    };
    // Called after each tick with what srun has said so far. Once it returns nodes, srun is killed:
    // it would wait for the tasks there until Slurm gives the nodes up. The other tasks are killed
    // with it.
    std::function<std::vector<std::string>(std::string_view messages)> dead_nodes =
        [](std::string_view) { return std::vector<std::string>(); };
    // Called for TERM, INT, HUP, USR1, USR2 and URG that we receive. Returns the signal to pass on
    // to srun, or nothing to pass on none.
    std::function<std::optional<int>(int)> pass_on = [](int signal) {
        return signal == plan::checkpoint_notice ? std::nullopt : std::optional(signal);
    };
    // The tasks that are to start. If Slurm does not start one of them, the others are ended. None:
    // the caller can do without some of them, and knows by other means which have run.
    std::optional<ExpectedStarts> starts{};
    // If not 0, the number of tasks. Each task prints a line once it runs and then waits for a line
    // on its standard input. The tasks get that line once all of them run, or the end of the stream
    // if one has failed.
    int held_tasks = 0;
};

// Starts the steps of an attempt. Tests replace it with one that does not use srun.
class StepRunner {
  public:
    virtual ~StepRunner() = default;
    // Runs a step and waits for its end. While nobody answers for Slurm, as when its controller is
    // started again or another one takes over, the step is tried again for half an hour.
    [[nodiscard]] virtual base::Result<StepResult> run(const StepRequest& request) = 0;
    // Returns TERM or INT if one has come while no step ran.
    [[nodiscard]] virtual std::optional<int> stopped_by() = 0;
    // Returns whether Slurm has sent its notice that the job will soon be ended, at any time.
    [[nodiscard]] virtual bool end_is_near() = 0;
    // Says that Slurm may count a step as running, because of a dead node, that has ended. All
    // later steps overlap it.
    virtual void leave_step() = 0;
    // Sends a signal to the tasks of the step that runs now: USR1 or USR2, which srun passes on, or
    // TERM. srun would end the step if it got TERM, so Slurm is asked to send that.
    [[nodiscard]] virtual base::Result<void> signal_tasks(int signal) = 0;
};

// Runs srun, and forwards TERM, INT, HUP, USR1 and USR2 to it.
class SrunRunner final : public StepRunner {
  public:
    explicit SrunRunner(std::string job_id = {}) : job_id_(std::move(job_id)) {}

    [[nodiscard]] base::Result<StepResult> run(const StepRequest& request) override;
    [[nodiscard]] std::optional<int> stopped_by() override;
    [[nodiscard]] bool end_is_near() override;
    void leave_step() override { has_left_step_ = true; }
    [[nodiscard]] base::Result<void> signal_tasks(int signal) override;

  private:
    [[nodiscard]] base::Result<StepResult> run_once(const StepRequest& request);
    // Waits a moment, and returns TERM or INT if it comes.
    [[nodiscard]] std::optional<int> pause(const StepRequest& request);
    // Takes the next signal that has come.
    [[nodiscard]] std::optional<int> next_signal();

    std::string job_id_;
    base::Child* srun_ = nullptr;  // of the step that runs now
    bool has_left_step_ = false;   // Slurm may still count one as running
    std::deque<int> not_handled_;  // signals that came while no step ran
    bool noticed_ = false;
    base::HeldSignals signals_{SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, plan::checkpoint_notice,
                               SIGCHLD};
};

// Tells a background step that it is not needed any more.
inline constexpr int end_of_background_step = SIGUSR1;

struct BackgroundOptions {
    std::string messages_path;  // of srun's own messages; the file is created if necessary
    int output = -1;            // where the standard output leads; -1: where ours leads
    // The signal that ends srun. With TERM, Slurm kills the step's tasks; srun passes the others
    // on.
    int end_signal = end_of_background_step;
};

// An srun that runs beside the job's other steps. The destructor sends it the signal that ends it,
// and waits for its end.
class BackgroundStep {
  public:
    [[nodiscard]] static base::Result<BackgroundStep> start(const base::Arguments& arguments,
                                                            const base::Environment& environment,
                                                            const BackgroundOptions& options);
    ~BackgroundStep();
    BackgroundStep(BackgroundStep&& other) = default;
    BackgroundStep& operator=(BackgroundStep&& other) noexcept;
    BackgroundStep(const BackgroundStep&) = delete;
    BackgroundStep& operator=(const BackgroundStep&) = delete;

    // Returns false once srun has ended.
    [[nodiscard]] bool runs();
    // Kills srun, which would wait for a node that is dead. Slurm then ends the step.
    void abandon();
    // Returns srun's exit code, as a shell reports it, once runs() has returned false.
    [[nodiscard]] std::optional<int> exit_code() const { return exit_code_; }

  private:
    BackgroundStep(base::Child srun, int end_signal)
        : srun_(std::move(srun)), end_signal_(end_signal) {}
    void end();

    base::Child srun_;
    int end_signal_;
    std::optional<int> exit_code_;
};

}  // namespace batchai::run
