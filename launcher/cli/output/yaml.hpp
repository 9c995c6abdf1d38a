// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/json.hpp"

namespace batchai::cli {

// Prints a value as a YAML document in the block style of the Azure CLI: keys sorted, lists not
// indented below their key, and "..." after a document that is one plain word. A string is quoted
// wherever a reader could take it for anything else.
[[nodiscard]] std::string format_yaml(const base::Value& value);

}  // namespace batchai::cli
