// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

namespace batchai::node {

// Returns the name of a function as people know it, from that of the symbol: without arguments,
// template arguments and return type, and without what only tools for measuring use.
[[nodiscard]] std::string readable_function(const std::string& symbol);

// The same for a name of C++ that is demangled already.
[[nodiscard]] std::string without_arguments(std::string_view name);

}  // namespace batchai::node
