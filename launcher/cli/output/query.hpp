// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string_view>

#include "base/error.hpp"
#include "cli/output/output.hpp"

namespace batchai::cli {

// Evaluates a JMESPath expression. An error in the expression is reported in one message that shows
// the expression with a caret under the place (ExitCode::usage).
[[nodiscard]] base::Result<Value> query(const Value& value, std::string_view expression);

// Checks the expression without evaluating it, so that a bad --query stops a command before it
// acts.
[[nodiscard]] base::Result<void> check_query(std::string_view expression);

}  // namespace batchai::cli
