// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "plan/plan.hpp"
#include "run/blame/slurm_words.hpp"

namespace batchai::run {

// Decides when the ranks of a job get the signal of "checkpoint", and what becomes of the other
// signals that come for them. It asks nobody: it is told the signals and the time. One object
// serves one start of the ranks.
class Warning {
  public:
    using Clock = std::chrono::steady_clock;

    enum class Answer {
        nothing,  // the signal is not for the ranks, or they know already
        warn,     // the ranks get the signal of "checkpoint"
        pass_on,  // srun gets the signal
    };

    Warning(const std::optional<plan::Checkpoint>& checkpoint, Clock::time_point start);

    // Answers a signal that has come. A notice is kept while the ranks start.
    //
    // When Slurm ends the job, it sends TERM to the ranks itself and kills what is left after
    // KillWait. srun would have the ranks killed at once if it got TERM, too, so TERM becomes the
    // warning. A further one is passed on only when the time is over that the ranks have been
    // promised, since it may come from somebody who wants to end the step.
    [[nodiscard]] Answer answer(int signal, Clock::time_point now);
    // Returns whether a notice that was kept must be given to the ranks now.
    [[nodiscard]] bool is_due(Clock::time_point now) const;
    // Must be called when the ranks have got the signal.
    void given() { given_ = true; }
    // Must be called when they could not be given it. It is then due again a little later.
    void postpone(Clock::time_point now);

    [[nodiscard]] bool has_been_given() const { return given_; }

  private:
    const std::optional<plan::Checkpoint>& checkpoint_;
    Clock::time_point earliest_;                   // for a notice
    std::optional<Clock::time_point> promised_{};  // until when the ranks may save
    bool given_ = false;
};

// The exit code by which a rank says that it has stopped and can go on: EX_TEMPFAIL.
inline constexpr int run_me_again = 75;

// Returns whether ranks that have failed after their warning have done what they were told: one of
// them has ended with `run_me_again`, or by the signal of "checkpoint". Any other failure is the
// program's own.
[[nodiscard]] bool ended_as_told(const std::vector<TaskEnd>& ends, int exit_code,
                                 const plan::Checkpoint& checkpoint);

}  // namespace batchai::run
