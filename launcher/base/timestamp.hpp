// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace batchai::base {

using Time = std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds>;

[[nodiscard]] Time now();

// Returns 0 if `to` is before `from`.
[[nodiscard]] double seconds_between(Time from, Time to);

// Returns a time as "2018-06-21T17:15:18.288000+00:00", the form of the Azure CLI. It is always UTC
// and always has six digits.
[[nodiscard]] std::string to_iso8601(Time time);
// Returns a time as "2018-06-21T17:15:18+00:00".
[[nodiscard]] std::string to_iso8601_seconds(Time time);
// Reads both forms above, and "2018-06-21T17:15:18" as UTC.
[[nodiscard]] std::optional<Time> from_iso8601(std::string_view text);

}  // namespace batchai::base
