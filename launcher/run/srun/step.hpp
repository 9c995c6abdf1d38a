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

// Runs srun, calls `tick` about four times a second, forwards TERM, INT, HUP, USR1 and USR2 to it,
// and waits for its end. A deadline of zero means none: the job's own time limit bounds it.
[[nodiscard]] base::Result<StepResult> run_step(const base::Arguments& arguments,
                                                const base::Environment& environment,
                                                const SignalWatch& signals,
                                                std::chrono::seconds deadline,
                                                const std::function<void()>& tick);

}  // namespace batchai::run
