// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "cli/output/value.hpp"

namespace batchai::cli {

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
// string become \t and \n. If the whole value is null, nothing is printed.
[[nodiscard]] std::string format_tsv(const Value& value, bool from_query);

}  // namespace batchai::cli
