// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "status/history/facts.hpp"

// How fast the ranks were, and what they waited for, from their training steps.
namespace batchai::status {

struct RankSpeed {
    int rank = 0;
    std::string host{};
    std::size_t steps = 0;
    double steps_per_second = 0;
    // Medians of a step, in seconds: the rank's own work, and the whole step.
    double own = 0;
    double total = 0;
    // How many times as long as the other ranks' median its own work takes, since `slow_since` if
    // the rank is slow.
    double ratio = 1;
    struct Since {
        base::Time time{};
        std::size_t step = 0;  // its number, from 1 on; 0: unknown, because parts were not read
    };
    std::optional<Since> slow_since{};  // none: it is not slow
    // The median of its own work in each of Speed::bins equal spans of time; less than 0: no step.
    std::vector<double> series{};
};

// Medians over the ranks, in seconds for each step. The parts of a step add up to `total`: the
// ranks' work, then the wait for the slowest rank, then the communication that is not hidden
// behind work.
struct Speed {
    std::vector<RankSpeed> ranks{};  // in their order; empty: nothing is known
    double total = 0;
    double work = 0;
    double waiting = 0;
    double communication = 0;
    double transfer = 0;  // in which data was moved, hidden or not
    double bytes = 0;
    base::Time begin{};
    base::Time end{};
    std::size_t bins = 0;

    [[nodiscard]] bool known() const { return !ranks.empty(); }
    // Returns the share of `part` in a step, 0 to 1.
    [[nodiscard]] double share(double part) const { return total > 0 ? part / total : 0; }
};

// A rank is slow if its own work takes at least this many times as long as that of the others, and
// if the difference is at least this share of a step.
inline constexpr double slow_ratio = 1.3;
inline constexpr double slow_share = 0.05;

[[nodiscard]] Speed speed_of(const Timelines& timelines);

[[nodiscard]] double median(std::vector<double> numbers);  // 0 if there are none

}  // namespace batchai::status
