// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/timestamp.hpp"
#include "cli/output/value.hpp"

// The words of `job wait`, as the Azure CLI has them.
namespace batchai::cli {

// "2018-06-15 21:43:12.424000+00:00", as Python prints a time.
[[nodiscard]] std::string python_time(base::Time time);

// "0:03:25", "1 day, 2:00:00", with fractions of a second only if there are any.
[[nodiscard]] std::string python_duration(base::Time::duration duration);

// The lines about the errors of executionInfo, each with its newline; empty for null.
[[nodiscard]] std::string error_lines(const Value& errors);

}  // namespace batchai::cli
