// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string_view>

#include <poll.h>

#include "base/error.hpp"

namespace batchai::cli {

// Returns whether the program was started by the name az, as a drop-in for the Azure CLI.
[[nodiscard]] bool called_as_az();
// With --only-show-errors, say() and warn() print nothing, and nothing shows progress.
void show_only_errors();
[[nodiscard]] bool only_errors_are_shown();

// Prints a line for the user on standard error, prefixed "batchai: ". It may quote what nodes,
// other users and other programs say: say() and warn() print nothing that a terminal would obey.
void say(std::string_view line);
// Prints a warning on standard error, prefixed "batchai: warning: ".
void warn(std::string_view line);
// Prints an error on standard error, prefixed "batchai: error: ", also with --only-show-errors.
void say_error(std::string_view text);

// Writes to standard output without buffering, so that a reader has the bytes at once. Returns
// false, after it has said why, if that is not possible, and also after Ctrl-C.
[[nodiscard]] bool print_bytes(std::string_view bytes);
// Returns whether print_bytes() could not write something.
[[nodiscard]] bool output_is_lost();

// Asks for confirmation before a destructive operation and returns whether to go on. `yes` skips
// the question. If standard input is not a terminal, nobody can answer, which is an error
// (ExitCode::usage).
[[nodiscard]] base::Result<bool> confirm(bool yes);

// While an instance exists, Ctrl-C sets a flag instead of ending the program, so that a command
// that follows a job can print a message before it exits. At most one instance may exist at a time.
class Interruption {
  public:
    Interruption();
    ~Interruption();
    Interruption(const Interruption&) = delete;
    Interruption& operator=(const Interruption&) = delete;

    [[nodiscard]] static bool requested();
    // Makes requested() wait for the next Ctrl-C.
    static void forget();
    // Sleeps for this time, or until Ctrl-C.
    static void sleep(std::chrono::milliseconds time);
    // As poll(2), but a Ctrl-C that came before the call ends it, too. Without a time it waits as
    // long as it takes.
    static int poll(std::span<pollfd> events, std::optional<std::chrono::milliseconds> time);
};

}  // namespace batchai::cli
