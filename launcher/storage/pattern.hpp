// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string_view>

namespace batchai::storage {

// Returns whether the whole name matches the pattern of --pattern: "*" stands for any text, slashes
// included, "?" for one byte, "[a-z]" for one of a set and "[!a-z]" for one outside it. A "[" that
// is never closed stands for itself. Takes at most the product of both lengths in steps, whatever
// the pattern is.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view name);

}  // namespace batchai::storage
