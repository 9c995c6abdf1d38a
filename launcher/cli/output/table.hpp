// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "cli/output/value.hpp"

namespace batchai::cli {

// Rows of cells under headers; a cell is text, or a number that was formatted.
struct Table {
    std::vector<std::string> headers;
    std::vector<std::vector<std::string>> rows;
};

// The layout that users of the Azure CLI know: a header, a line of dashes, the rows; two blanks
// between columns; a column is as wide as its widest cell, and at least two wider than its header;
// columns of numbers (blank cells aside) are aligned to the right; no trailing blanks.
[[nodiscard]] std::string format_table(const Table& table);

// The table of a value without columns of its own. A query shows members in the order of the
// query, else they are sorted; headers get a capital first letter; id, type, etag, and null, list
// and object members are left out. Scalars give a column "Result", lists of lists Column1, ….
[[nodiscard]] Table generic_table(const Value& value, bool from_query);

// One line per item of a list, values separated by tabs, no header; objects give their values by
// sorted key, or as the query ordered them; a nested list gives its length, a nested object
// nothing, null "None". Tabs and newlines inside of a text become \t and \n. A null value gives no
// line at all.
[[nodiscard]] std::string format_tsv(const Value& value, bool from_query);

}  // namespace batchai::cli
