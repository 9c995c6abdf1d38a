// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/history/findings.hpp"

#include <algorithm>

namespace batchai::status {

namespace {

// The points of all nodes together, so that a page of many nodes stays small.
constexpr std::size_t all_points = 8000;
constexpr std::size_t fewest_points = 24;
constexpr std::size_t most_points = 240;

}  // namespace

Findings judge(const Facts& facts) {
    Findings out{.facts = facts,
                 .attempts = bars_of(facts),
                 .events = events_of(facts),
                 .speed = speed_of(facts.timelines),
                 .why_no_speed = {},
                 .resources = {},
                 .advice = {}};
    out.why_no_speed = why_no_speed(facts, out.speed);
    for (const auto& [attempt, usage] : facts.usage) {
        const std::size_t nodes = std::max<std::size_t>(1, usage.size());
        out.resources.emplace_back(
            attempt,
            resources_of(usage, std::clamp(all_points / nodes, fewest_points, most_points)));
    }
    out.advice = advice_for(facts, out.attempts, out.speed);
    return out;
}

}  // namespace batchai::status
