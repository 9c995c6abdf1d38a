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

// Without regard to case; an unknown or not yet supported name is an error (ExitCode::usage).
[[nodiscard]] base::Result<OutputFormat> output_format(std::string_view name);

// Turns a command's value into its own columns; used for tables without a query only.
using Columns = std::function<Table(const Value&)>;

struct OutputOptions {
    OutputFormat format = OutputFormat::json;
    std::optional<std::string> query;
    bool terminal = false;  // standard output is a terminal that may be coloured
};

// What standard output gets for the value.
[[nodiscard]] base::Result<std::string> render_output(const Value& value, const Columns& columns,
                                                      const OutputOptions& options);

}  // namespace batchai::cli
