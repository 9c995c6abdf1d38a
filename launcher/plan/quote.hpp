// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

#include "base/text.hpp"

namespace batchai::plan {

// Quotes one word for a shell. It gets single quotes even if it does not need them, so that a
// reader sees where a path begins and ends.
[[nodiscard]] inline std::string single_quoted(std::string_view word) {
    std::string out = base::shell_quote(word);
    return out.starts_with('\'') ? out : "'" + out + "'";
}

}  // namespace batchai::plan
