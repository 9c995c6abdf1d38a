// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "status/history/facts.hpp"

// What has happened to a job, in the order of time.
namespace batchai::status {

struct Event {
    base::Time time{};
    std::optional<int> attempt{};
    // "submitted", "waits", "attemptBegan", "phaseBegan", "phaseEnded", "failure", "nodeFailure",
    // "ranksRestarted", "ranksLost", "alarm", "retry", "attemptEnded", "jobEnded"
    std::string kind{};
    std::string node{};  // empty: the job as a whole
    std::optional<int> rank{};
    std::string text{};  // a sentence, without a full stop

    bool operator==(const Event&) const = default;
};

[[nodiscard]] std::vector<Event> events_of(const Facts& facts);

// Returns one line of text without a newline, safe to print on a terminal.
[[nodiscard]] std::string line_of(const Event& event);

}  // namespace batchai::status
