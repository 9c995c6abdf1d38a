// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <utility>

namespace batchai::base {

// The time in which this process was stopped, and whatever it waits for as well: Slurm suspends all
// processes of a job together, and so does a host that sleeps. Such a time must not count for a
// deadline. It is noticed by looks at the clock several times a second.
class StoppedTime {
  public:
    using Clock = std::chrono::steady_clock;

    explicit StoppedTime(Clock::time_point now = Clock::now()) : last_look_(now) {}

    // Returns how long the process was stopped since the last look, or 0.
    [[nodiscard]] Clock::duration look(Clock::time_point now) {
        const auto away = now - std::exchange(last_look_, now);
        return away >= longest_between_looks ? away : Clock::duration(0);
    }

  private:
    // A process that is not stopped may have to wait for a busy processor.
    static constexpr std::chrono::seconds longest_between_looks{5};

    Clock::time_point last_look_;
};

}  // namespace batchai::base
