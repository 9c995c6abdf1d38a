// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/child.hpp"
#include "base/error.hpp"

namespace batchai::base {

struct RunOptions {
    std::optional<Environment> environment;  // without it the program gets ours
    std::string standard_input;              // at most 64 KiB
    bool show_messages = false;  // its standard error goes to ours, for a user who watches
    std::chrono::milliseconds deadline{60000};
    std::size_t output_limit = 64UL << 20U;  // bytes of each stream; more is an error
    bool keeps_end = false;                  // instead of that error, keeps the last bytes
    bool own_group = false;                  // as in Program
    bool ends_with_us = false;
    Signals signals = Signals::inherited;
    std::string missing_hint = Program().missing_hint;
    // Called while the program runs. If it fails, the program is ended and its error is the result.
    std::function<Result<void>()> tick;
    std::chrono::milliseconds tick_period{250};
};

struct Completed {
    int exit_code = 0;  // as a shell reports it: 128 + signal if killed
    std::string standard_output;
    std::string standard_error;
};

// Runs argv[0], which is found on PATH, without a shell, and waits until it ends. It is an error if
// the program cannot be started, or if it does not end before the deadline and is killed. A
// non-zero exit code is not an error.
[[nodiscard]] Result<Completed> run(const Arguments& arguments, const RunOptions& options = {});

// Returns our environment without the variables whose entries start with one of `prefixes`.
[[nodiscard]] Environment environment_without(const std::vector<std::string>& prefixes);

}  // namespace batchai::base
