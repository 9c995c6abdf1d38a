// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "cli/output/value.hpp"

namespace batchai::cli {

enum class Colour { off, on };

// Keys sorted, two blanks of indent, non-ASCII kept, one newline at the end.
[[nodiscard]] std::string format_json(const Value& value, Colour colour = Colour::off);

}  // namespace batchai::cli
