// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/json.hpp"

namespace batchai::cli {

// The result of a command is a JSON value.
using base::Colour;
using base::format_json;
using base::number_text;
using base::parse_json;
using base::sorted_members;
using base::Value;

// Rows of cells under headers. A cell is text or a formatted number.
struct Table {
    std::vector<std::string> headers;
    std::vector<std::vector<std::string>> rows;
};

// Formats the table in the layout that users of the Azure CLI know: a header, a line of dashes, and
// the rows. Columns are separated by two blanks. A column is as wide as its widest cell and at
// least two wider than its header. Columns of numbers, ignoring blank cells, are right-aligned.
// Lines have no trailing blanks.
[[nodiscard]] std::string format_table(const Table& table);

// Makes the table of a value that has no columns of its own. After a query, members are in the
// query's order; otherwise they are sorted. Headers start with a capital letter. The members id,
// type and etag are left out, and so are null, list and object members. A scalar becomes a column
// "Result", and a list of lists becomes the columns Column1, Column2, ….
[[nodiscard]] Table generic_table(const Value& value, bool from_query);

// Prints one line per item of a list, with values separated by tabs and without a header. An
// object's values are in the order of its sorted keys, or in the query's order. A nested list is
// printed as its length, a nested object as nothing, and null as "None". Tabs and newlines inside a
// string become \t and \n, and other control characters \x1b. If the whole value is null, nothing
// is printed.
[[nodiscard]] std::string format_tsv(const Value& value, bool from_query);

enum class OutputFormat { json, jsonc, table, tsv, yaml, none };

// Returns the format of this name, ignoring case. An unknown name is an error
// (ExitCode::usage).
[[nodiscard]] base::Result<OutputFormat> output_format(std::string_view name);

// Turns a command's value into a table with columns chosen for it. Used only without a query.
using Columns = std::function<Table(const Value&)>;

// The result of a verb, for printing.
struct Outcome {
    std::optional<Value> value;  // absent: nothing is printed
    Columns columns;             // of the table; empty: the generic table
    int exit_code = 0;
};

using Answer = base::Result<Outcome>;

struct OutputOptions {
    OutputFormat format = OutputFormat::json;
    std::optional<std::string> query;
    bool terminal = false;  // standard output is a terminal that may be coloured
};

// Returns the text that is printed on standard output for the value.
[[nodiscard]] base::Result<std::string> render_output(const Value& value, const Columns& columns,
                                                      const OutputOptions& options);

}  // namespace batchai::cli
