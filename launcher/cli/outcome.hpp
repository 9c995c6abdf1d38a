// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string_view>

#include "base/error.hpp"
#include "cli/output/output.hpp"
#include "cli/output/value.hpp"

namespace batchai::cli {

// What a verb hands back for printing.
struct Outcome {
    std::optional<Value> value;  // none: nothing is printed
    Columns columns;             // of the table; none: the generic rules
    int exit_code = 0;
};

using Answer = base::Result<Outcome>;

// A line on standard error for the user, prefixed "batchai: ".
void say(std::string_view line);
// The same, prefixed "batchai: warning: ".
void warn(std::string_view line);

}  // namespace batchai::cli
