// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/warning.hpp"

#include <algorithm>
#include <csignal>

#include "run/blame/culprit.hpp"

namespace batchai::run {

namespace {

using std::chrono::seconds;

// srun drops a signal that comes before it has started the ranks, and a rank that has just been
// started has no handler yet. So ranks get this time first, unless it is more than half of what
// they have.
constexpr seconds to_start{30};
// KillWait, as it usually is. Where it is longer, Slurm itself waits longer.
constexpr seconds usual_kill_wait{30};

}  // namespace

Warning::Warning(const std::optional<plan::Checkpoint>& checkpoint, Clock::time_point start)
    : checkpoint_(checkpoint), earliest_(start) {
    if (checkpoint_)
        earliest_ += std::min<Clock::duration>(to_start, seconds(checkpoint_->seconds_before) / 2);
}

Warning::Answer Warning::answer(int signal, Clock::time_point now) {
    const bool notice = signal == plan::checkpoint_notice;
    if (!checkpoint_) return notice ? Answer::nothing : Answer::pass_on;
    if (notice) {
        if (!promised_) promised_ = now + seconds(checkpoint_->seconds_before);
        return !given_ && is_due(now) ? Answer::warn : Answer::nothing;
    }
    if (signal != SIGTERM) return Answer::pass_on;
    if (given_) return now < *promised_ ? Answer::nothing : Answer::pass_on;
    promised_ = std::max(promised_.value_or(now), now + usual_kill_wait);
    // Slurm does not wait until the ranks have started.
    earliest_ = now;
    return Answer::warn;
}

bool Warning::is_due(Clock::time_point now) const {
    return promised_ && !given_ && now >= earliest_;
}

void Warning::postpone(Clock::time_point now) {
    earliest_ = now + seconds(5);
}

bool ended_as_told(const std::vector<TaskEnd>& ends, int exit_code,
                   const plan::Checkpoint& checkpoint) {
    const auto told = [&](int code) {
        return code == run_me_again || code == 128 + checkpoint.signal;
    };
    return told(exit_code) || std::any_of(ends.begin(), ends.end(), [&](const TaskEnd& end) {
               return !end.victim && told(exit_code_of(end, 0));
           });
}

}  // namespace batchai::run
