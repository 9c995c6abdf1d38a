// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/process.hpp"

namespace batchai::run {

struct StepResult {
    int exit_code = 0;              // of srun, as a shell reports it
    std::string messages;           // srun's standard error
    std::optional<int> stopped_by;  // TERM or INT that we received while the step ran
};

// One run of srun.
struct StepRequest {
    base::Arguments arguments;
    base::Environment environment;
    std::chrono::seconds deadline{0};    // 0: only the job's own time limit
    std::function<void()> tick = [] {};  // called about four times a second
    // If not 0, the number of tasks. Each task prints a line once it runs and then waits for a line
    // on its standard input. The tasks get that line once all of them run, or the end of the stream
    // if one has failed.
    int held_tasks = 0;
};

// Starts the steps of an attempt. Tests replace it with one that does not use srun.
class StepRunner {
  public:
    virtual ~StepRunner() = default;
    // Runs a step and waits for its end.
    [[nodiscard]] virtual base::Result<StepResult> run(const StepRequest& request) = 0;
    // Returns TERM or INT if one has come while no step ran.
    [[nodiscard]] virtual std::optional<int> stopped_by() = 0;
};

// Runs srun, and forwards TERM, INT, HUP, USR1 and USR2 to it.
class SrunRunner final : public StepRunner {
  public:
    [[nodiscard]] base::Result<StepResult> run(const StepRequest& request) override;
    [[nodiscard]] std::optional<int> stopped_by() override;

  private:
    base::HeldSignals signals_{SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD};
};

// Tells a background step that it is not needed any more.
inline constexpr int end_of_background_step = SIGUSR1;

// An srun that runs beside the job's other steps. The destructor has srun send
// end_of_background_step to the step, and waits for the end of srun.
class BackgroundStep {
  public:
    // srun's own messages go to the file, which is created if necessary.
    [[nodiscard]] static base::Result<BackgroundStep> start(const base::Arguments& arguments,
                                                            const base::Environment& environment,
                                                            const std::string& messages_path);
    ~BackgroundStep();
    BackgroundStep(BackgroundStep&& other) = default;
    BackgroundStep& operator=(BackgroundStep&& other) noexcept;
    BackgroundStep(const BackgroundStep&) = delete;
    BackgroundStep& operator=(const BackgroundStep&) = delete;

    // Returns false once srun has ended.
    [[nodiscard]] bool runs();

  private:
    explicit BackgroundStep(base::Child srun) : srun_(std::move(srun)) {}
    void end();

    base::Child srun_;
};

}  // namespace batchai::run
