// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "record/usage.hpp"
#include "run/context.hpp"
#include "run/watch/slow_rank.hpp"
#include "run/watch/stall.hpp"
#include "run/watch/work.hpp"

namespace batchai::run {

// Looks now and then at what the nodes note of the ranks, as often as "watch" needs it, and passes
// it on: to the clock of stalls whether the ranks do anything, and to the meter of slow ranks how
// long they wait. Warns once if the nodes do not note what is needed.
class UsageWatch {
  public:
    using Clock = std::chrono::steady_clock;

    // The job has "watch". The ranks run on so many nodes.
    UsageWatch(Context& context, std::size_t nodes);

    // Looks if it is time. Returns whether what the ranks have done since the last look is known.
    bool look(StallClock& stalls, Clock::time_point now);
    // What the ranks do until then does not matter.
    void pause_until(Clock::time_point time);
    // Returns whether all nodes noted at the last look what their ranks do.
    [[nodiscard]] bool knows_all_nodes() const { return knows_all_nodes_; }
    [[nodiscard]] SlowRankMeter& slow_ranks() { return slow_; }
    [[nodiscard]] const SlowRankMeter& slow_ranks() const { return slow_; }

  private:
    void note_work(const std::vector<record::NodeUsage>& usage, StallClock& stalls,
                   Clock::time_point now);
    void note_unknown(bool unknown, Clock::time_point now);
    void note_waits(Clock::time_point now);

    Context& context_;
    const plan::Watch& watch_;
    WorkMeter work_;
    SlowRankMeter slow_;
    Clock::time_point next_look_;
    bool looks_at_work_ = false;
    bool knows_all_nodes_ = false;
    std::optional<Clock::time_point> unknown_since_;   // nobody knows what the ranks do
    bool warned_ = false;                              // of that
    std::optional<Clock::time_point> compares_since_;  // the waits of ranks, or tries to
    bool warned_of_waits_ = false;
};

}  // namespace batchai::run
