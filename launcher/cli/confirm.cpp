// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/confirm.hpp"

#include <cstdio>
#include <iostream>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "base/text.hpp"

namespace batchai::cli {

base::Result<bool> confirm(bool yes) {
    if (yes) return true;
    if (isatty(STDIN_FILENO) == 0) {
        return base::fail("cannot ask for confirmation: standard input is no terminal", "",
                          "give --yes (-y) to go on without the question", base::ExitCode::usage);
    }
    std::string line;
    while (true) {
        fmt::print(stderr, "Are you sure you want to perform this operation? (y/n): ");
        if (!std::getline(std::cin, line)) return false;
        const auto answer = base::lower(base::trim(line));
        if (answer == "y" || answer == "yes") return true;
        if (answer == "n" || answer == "no") return false;
    }
}

}  // namespace batchai::cli
