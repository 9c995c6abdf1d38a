// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/outcome.hpp"

#include <cstdio>

#include <fmt/format.h>

namespace batchai::cli {

void say(std::string_view line) {
    fmt::print(stderr, "batchai: {}\n", line);
}
void warn(std::string_view line) {
    fmt::print(stderr, "batchai: warning: {}\n", line);
}

}  // namespace batchai::cli
