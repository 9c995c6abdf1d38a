// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "cli/output/value.hpp"

namespace batchai::cli {

// One line per item of a list, values separated by tabs, no header; objects give their values by
// sorted key, or as the query ordered them; a nested list gives its length, a nested object
// nothing, null "None". Tabs and newlines inside of a text become \t and \n. A null value gives no
// line at all.
[[nodiscard]] std::string format_tsv(const Value& value, bool from_query);

}  // namespace batchai::cli
