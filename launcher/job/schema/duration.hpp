// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace batchai::job {

// Reads "P7D", "PT1H30M", "P1W", "7.00:00:00", "7 days, 0:00:00", "1 day, 2:00:00", "1:00:00".
// Months and years have no fixed length and are refused, as are fractions and signs.
[[nodiscard]] std::optional<std::chrono::seconds> parse_duration(std::string_view text);

// As Python prints a timedelta: "7 days, 0:00:00", "1 day, 0:00:00", "1:30:00".
[[nodiscard]] std::string format_duration(std::chrono::seconds duration);

}  // namespace batchai::job
