// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "cli/output/table.hpp"
#include "cli/output/value.hpp"

namespace batchai::cli {

enum class OutputFormat { json, jsonc, table, tsv, none };

// Returns the format of this name, ignoring case. An unknown or unsupported name is an error
// (ExitCode::usage).
[[nodiscard]] base::Result<OutputFormat> output_format(std::string_view name);

// Turns a command's value into a table with columns chosen for it. Used only without a query.
using Columns = std::function<Table(const Value&)>;

struct OutputOptions {
    OutputFormat format = OutputFormat::json;
    std::optional<std::string> query;
    bool terminal = false;  // standard output is a terminal that may be coloured
};

// Returns the text that is printed on standard output for the value.
[[nodiscard]] base::Result<std::string> render_output(const Value& value, const Columns& columns,
                                                      const OutputOptions& options);

}  // namespace batchai::cli
