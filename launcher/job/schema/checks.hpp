// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "job/schema/faults.hpp"
#include "job/schema/field.hpp"

namespace batchai::job {

// Reads "P7D", "PT1H30M", "P1W", "7.00:00:00", "7 days, 0:00:00", "1 day, 2:00:00", "1:00:00".
// Months and years have no fixed length and are refused, as are fractions and signs.
[[nodiscard]] std::optional<std::chrono::seconds> parse_duration(std::string_view text);

// As Python prints a timedelta: "7 days, 0:00:00", "1 day, 0:00:00", "1:30:00".
[[nodiscard]] std::string format_duration(std::chrono::seconds duration);

struct CheckFailure {
    Fault fault = Fault::bad_text;
    std::string message;  // a clause behind the setting's name: "must not be empty"
    std::string hint;
};

// What is wrong with the text of such a setting, if anything is.
[[nodiscard]] std::optional<CheckFailure> check_text(Check check, std::string_view text);

// The same as a regular expression for the JSON Schema; empty where any text will do. It may be
// looser than check_text().
[[nodiscard]] std::string_view pattern_of(Check check);

}  // namespace batchai::job
