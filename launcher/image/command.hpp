// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/process.hpp"

namespace batchai::image {

// How the caller of something that takes minutes takes part in it. Either may be empty.
struct Watch {
    std::function<void()> tick;         // called about four times a second
    std::function<bool()> interrupted;  // true: give up and leave nothing behind
};

struct Command {
    base::Arguments arguments;  // the program is found on PATH; no shell in between
    std::chrono::seconds deadline;
};

// The error's exit code when `interrupted` said so: what a shell says of Ctrl-C.
inline constexpr auto interrupted_code = static_cast<base::ExitCode>(130);

// Runs the command in our environment to its end, in a process group of its own, so that a
// terminal's Ctrl-C comes to us alone and we end it; it also ends when we are killed. Signals are
// not blocked in it. Keeps the last 64 KiB of its standard error and at most 16 MiB of its standard
// output. Errors: cannot be started (names the Debian package), deadline, interrupted.
[[nodiscard]] base::Result<base::Completed> run(const Command& command, const Watch& watch);

// Whether to give up, as an error.
[[nodiscard]] base::Result<void> check_interrupted(const Watch& watch);

// What skopeo was asked for, for messages.
struct Question {
    std::string image;              // as the user wrote it
    std::string registry;           // empty: the image is in a file or directory
    std::string credential_source;  // in words: "containerSettings.credentials (user me)", "none"
};

// Tells from what skopeo printed which of a handful of faults it is: the registry cannot be
// reached, refuses, does not know the image, wants TLS or another authority. What skopeo said
// stays in the message where it says more than we do. `exit_code` of the error: not_found when the
// image is not there, timed_out, refused when credentials are wrong, else failed.
[[nodiscard]] base::Error explain(std::string_view standard_error, const Question& question);

// The text of skopeo's last message: without time and level, quotes undone.
[[nodiscard]] std::string last_message(std::string_view standard_error);

}  // namespace batchai::image
