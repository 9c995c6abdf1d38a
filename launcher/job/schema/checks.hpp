// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "job/schema/faults.hpp"
#include "job/schema/field.hpp"

namespace batchai::job {

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
