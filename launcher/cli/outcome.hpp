// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string_view>

#include "base/error.hpp"
#include "cli/output/output.hpp"
#include "cli/output/value.hpp"

namespace batchai::cli {

// The result of a verb, for printing.
struct Outcome {
    std::optional<Value> value;  // absent: nothing is printed
    Columns columns;             // of the table; empty: the generic table
    int exit_code = 0;
};

using Answer = base::Result<Outcome>;

// Prints a line for the user on standard error, prefixed "batchai: ".
void say(std::string_view line);
// Prints a warning on standard error, prefixed "batchai: warning: ".
void warn(std::string_view line);

}  // namespace batchai::cli
