// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace batchai::base {

using Arguments = std::vector<std::string>;
// "NAME=value" entries.
using Environment = std::vector<std::string>;

struct RunOptions {
    std::optional<Environment> environment;  // nothing: inherit ours
    std::string standard_input;              // at most 64 KiB
    bool show_messages = false;              // standard error is ours: a user watches the progress
    std::chrono::milliseconds deadline{60000};
    std::size_t output_limit = 64UL << 20U;  // of each stream; more is an error
    // Asked once, when the program has not ended after `patience`, whether it is worth waiting on.
    // An error of it ends the program and is the result.
    std::function<Result<void>()> still_wanted;
    std::chrono::milliseconds patience{1000};
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

// What waitpid(2) reported, as a shell says it.
[[nodiscard]] int shell_exit_code(int wait_status);

}  // namespace batchai::base
