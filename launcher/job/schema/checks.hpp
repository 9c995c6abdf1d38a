// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "job/schema/faults.hpp"
#include "job/schema/field.hpp"

namespace batchai::job {

// Parses "P7D", "PT1H30M", "P1W", "7.00:00:00", "7 days, 0:00:00", "1 day, 2:00:00" or "1:00:00".
// Months and years are refused because they have no fixed length, and so are fractions and signs.
[[nodiscard]] std::optional<std::chrono::seconds> parse_duration(std::string_view text);

// Formats a duration as Python prints a timedelta: "7 days, 0:00:00", "1 day, 0:00:00", "1:30:00".
[[nodiscard]] std::string format_duration(std::chrono::seconds duration);

// Bounds of the times of "watch".
inline constexpr std::chrono::seconds shortest_watch{10};
// The slices of a shorter time would be as short as the nodes' samples.
inline constexpr std::chrono::seconds shortest_slow_rank{30};
inline constexpr std::chrono::seconds longest_watch = std::chrono::days(7);

// What "retry.on" may name besides exit codes.
inline constexpr std::array<std::string_view, 5> retry_causes = {"nodeFailure", "preemption",
                                                                 "timeout", "hang", "slow"};

struct CheckFailure {
    Fault fault = Fault::bad_text;
    std::string message;  // a clause that follows the setting's name: "must not be empty"
    std::string hint;
};

// Returns what is wrong with the text of a setting that has this check; nothing if it is valid.
[[nodiscard]] std::optional<CheckFailure> check_text(Check check, std::string_view text);

// Returns the check as a regular expression for the JSON Schema; empty if any text matches. The
// expression may accept more than check_text() does.
[[nodiscard]] std::string_view pattern_of(Check check);

}  // namespace batchai::job
