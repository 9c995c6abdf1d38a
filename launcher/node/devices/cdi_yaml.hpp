// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string_view>

#include "base/json.hpp"

namespace batchai::node {

// The YAML document as the JSON value that it stands for: plain scalars are null, booleans and
// whole numbers as YAML's core schema reads them, everything else is text. Throws std::exception,
// with line and column, when it is malformed.
[[nodiscard]] base::Value json_of_yaml(std::string_view text);

}  // namespace batchai::node
