// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include <sys/types.h>

#include "base/process.hpp"

namespace batchai::run {

// Signals for the job: blocked while this object lives and read from a descriptor, so that they
// are handled between system calls, in one place. One object a process.
class SignalWatch {
  public:
    SignalWatch();
    ~SignalWatch();
    SignalWatch(const SignalWatch&) = delete;
    SignalWatch& operator=(const SignalWatch&) = delete;

    [[nodiscard]] int descriptor() const { return descriptor_; }
    // The next signal that has arrived, or nothing.
    [[nodiscard]] std::optional<int> next() const;

  private:
    int descriptor_ = -1;
};

struct StepResult {
    int exit_code = 0;              // of srun, as a shell says it
    std::string messages;           // what srun itself printed on its standard error
    std::optional<int> stopped_by;  // TERM or INT that we got while the step ran
};

// Starts srun, with no signal blocked and its standard error where `error_descriptor` leads.
[[nodiscard]] base::Result<pid_t> start_srun(const base::Arguments& arguments,
                                             const base::Environment& environment,
                                             int error_descriptor);

// One srun.
struct StepRequest {
    base::Arguments arguments;
    base::Environment environment;
    std::chrono::seconds deadline{0};    // none: the job's own time limit bounds it
    std::function<void()> tick = [] {};  // called about four times a second
};

// What starts the steps of an attempt. Tests have another one than srun's.
class StepRunner {
  public:
    virtual ~StepRunner() = default;
    // Waits for the step's end.
    [[nodiscard]] virtual base::Result<StepResult> run(const StepRequest& request) = 0;
    // TERM or INT, if one has come while no step ran.
    [[nodiscard]] virtual std::optional<int> stopped_by() = 0;
};

// Runs srun, and forwards TERM, INT, HUP, USR1 and USR2 to it.
class SrunRunner final : public StepRunner {
  public:
    [[nodiscard]] base::Result<StepResult> run(const StepRequest& request) override;
    [[nodiscard]] std::optional<int> stopped_by() override;

  private:
    SignalWatch signals_;
};

// An srun that runs beside the job's other steps. Its end asks srun to end the step, and waits.
class BackgroundStep {
  public:
    // srun's own messages go to the file, which is made if need be.
    [[nodiscard]] static base::Result<BackgroundStep> start(const base::Arguments& arguments,
                                                            const base::Environment& environment,
                                                            const std::string& messages_path);
    ~BackgroundStep();
    BackgroundStep(BackgroundStep&& other) noexcept;
    BackgroundStep& operator=(BackgroundStep&& other) noexcept;
    BackgroundStep(const BackgroundStep&) = delete;
    BackgroundStep& operator=(const BackgroundStep&) = delete;

    // False once srun has ended.
    [[nodiscard]] bool runs();

  private:
    explicit BackgroundStep(pid_t srun) : srun_(srun) {}
    void end();

    pid_t srun_ = -1;  // -1: has ended
};

}  // namespace batchai::run
