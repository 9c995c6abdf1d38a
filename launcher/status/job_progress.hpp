// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "status/job_view.hpp"
#include "status/job_watch.hpp"

// How commands follow a job until it has ended, and what they say about it on standard error.
namespace batchai::status {

// What a command has found when it looked at what it follows. With `more` it has not seen all that
// there is, and looks again at once.
enum class Step { nothing_new, something_new, more, stop };

// The newest view of a job that is no longer followed. The job may go on if the user has pressed
// Ctrl-C, or if the command has stopped by itself.
struct Followed {
    JobView view;
    bool stopped = false;  // by the command
};

// Calls `step` with each new view until the job has ended, Ctrl-C is pressed, or `step` says so.
// The view is asked for before the step: what the step then reads of an ended job is complete. An
// Interruption must exist.
[[nodiscard]] base::Result<Followed> follow(
    JobWatch& watch, const std::function<base::Result<Step>(const JobView&)>& step);

// Prints the progress of a job. It remembers what it has printed, so that each change is printed
// once.
class JobProgress {
  public:
    void look(const JobView& view);

  private:
    void say_reason(const JobView& view);
    void say_suspension(const JobView& view);
    void say_alarms(const JobView& view);

    bool said_submission_ = false;
    bool said_start_ = false;
    std::optional<slurm::ExecutionState> state_;
    std::string reason_;
    bool suspended_ = false;
    int attempt_ = 0;
    std::size_t said_alarms_ = 0;  // of this attempt
};

// Says how the job has ended. Returns its exit code, or 255 if it failed without one.
[[nodiscard]] int say_end(const JobView& view);

// Says that the job goes on though the command ends. Returns the exit code of the command.
[[nodiscard]] int say_interrupted(const JobView& view);

}  // namespace batchai::status
