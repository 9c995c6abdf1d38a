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
    bool show_messages = false;              // on our standard error, for a user who watches
    std::chrono::milliseconds deadline{60000};
    std::size_t output_limit = 64UL << 20U;  // of each stream; more is an error, unless
    bool keeps_end = false;                  // only the last bytes are kept
    bool own_group = false;                  // as of Program
    bool ends_with_us = false;
    Signals signals = Signals::inherited;
    std::string missing_hint = Program().missing_hint;
    // It is called while the program runs. If it fails, the program is ended and its error is the
    // result.
    std::function<Result<void>()> tick;
    std::chrono::milliseconds tick_period{250};
};

struct Completed {
    int exit_code = 0;  // as a shell says it: 128 + signal when killed
    std::string standard_output;
    std::string standard_error;
};

// Runs argv[0] (found on PATH) with no shell in between and waits until it ends. A program that
// cannot be started, or does not end before the deadline (it is killed), is an error; a non-zero
// exit is not.
[[nodiscard]] Result<Completed> run(const Arguments& arguments, const RunOptions& options = {});

// Our environment without the variables whose names start with one of `prefixes`.
[[nodiscard]] Environment environment_without(const std::vector<std::string>& prefixes);

}  // namespace batchai::base
