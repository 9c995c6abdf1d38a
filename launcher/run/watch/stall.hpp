// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/steps.hpp"

// What a job's "watch" does while the ranks run. The parts are:
//
//   stall.hpp       when the ranks stand still. Pure
//   line_stream.hpp lines of progress in what the ranks print. Pure
//   work.hpp        whether the ranks have done anything, by what their nodes note. Pure
//   slow_rank.hpp   which ranks are much slower than the others, by the same. Pure
//   usage_watch.hpp reads what the nodes note, for these
//   stack_look.hpp  asks the nodes where the ranks are
//   watcher.hpp     brings these together, and says what they find
namespace batchai::run {

// What can stand still, or nearly so.
enum class Stalled { silence, progress, gpus, slow_rank };

struct SlowRank {
    int rank = 0;
    std::string node;
    int percent = 0;  // of the time that the median of the others needs between collectives
};

struct StallChange {
    Stalled what = Stalled::silence;
    bool begins = true;  // false: what stood still goes on
    std::chrono::seconds since{0};
    std::vector<SlowRank> slow{};  // sorted by rank; for Stalled::slow_rank only
};

// Decides when all ranks stand still, by the times of what it is told. A stall is told once, when
// it begins, and once more if it ends.
class StallClock {
  public:
    using Clock = std::chrono::steady_clock;

    // The ranks start at `now`.
    StallClock(const plan::Watch& watch, Clock::time_point now);

    void printed(Clock::time_point now) { printed_ = now; }
    void progressed(Clock::time_point now) { progressed_ = now; }
    // From `now` on, what the ranks do is looked at. Before that it is not known.
    void looks(Clock::time_point now) { looks_since_ = now; }
    // The ranks have done something until `now`, or nobody knows whether they have.
    void worked(Clock::time_point now) { worked_ = now; }
    void gpus_worked(Clock::time_point now) { gpus_worked_ = now; }
    // Nobody has looked for so long, and the ranks may not have been able to run either. This time
    // does not count.
    void leave_out(Clock::duration time);

    // Returns whether it matters now what the ranks do. It does once they have given no other sign
    // of life for a quarter of a limit, so a stall is told up to a quarter later than it could be.
    [[nodiscard]] bool needs_work(Clock::time_point now) const;
    [[nodiscard]] bool stands_still(Stalled what, Clock::time_point now) const;
    // Returns what has changed since the last call; one change at a time.
    [[nodiscard]] std::optional<StallChange> poll(Clock::time_point now);

  private:
    // Returns when the last sign of life came.
    [[nodiscard]] Clock::time_point last_sign(Stalled what) const;
    [[nodiscard]] Clock::duration time_of(Stalled what, Clock::time_point now) const;
    [[nodiscard]] Clock::duration limit_of(Stalled what) const;  // 0: not watched

    const plan::Watch& watch_;
    Clock::time_point began_;
    Clock::time_point printed_;
    Clock::time_point worked_;
    Clock::time_point gpus_worked_;
    Clock::time_point looks_since_;
    std::optional<Clock::time_point> progressed_;
    static constexpr std::array kinds{Stalled::silence, Stalled::progress, Stalled::gpus};
    std::array<bool, kinds.size()> told_{};
};

// Returns "the ranks have printed nothing and done nothing for 600 s (\"watch.silence\")", or that
// they do again.
[[nodiscard]] std::string text_of(const StallChange& change);

}  // namespace batchai::run
