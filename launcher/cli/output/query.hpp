// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string_view>

#include "base/error.hpp"
#include "cli/output/value.hpp"

namespace batchai::cli {

// Evaluates a JMESPath expression. A fault in the expression is one message with the expression
// and a caret under the place (ExitCode::usage).
[[nodiscard]] base::Result<Value> query(const Value& value, std::string_view expression);

// Only the check of the expression, so that a bad --query stops a command before it acts.
[[nodiscard]] base::Result<void> check_query(std::string_view expression);

}  // namespace batchai::cli
