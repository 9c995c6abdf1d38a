// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/process.hpp"

namespace batchai::image {

// Callbacks of an operation that may take minutes. Either may be empty.
struct Watch {
    std::function<void()> tick;         // called about four times a second
    std::function<bool()> interrupted;  // returns true to give up and leave nothing behind
};

struct Command {
    base::Arguments arguments;  // the program is found on PATH; no shell is involved
    std::chrono::seconds deadline;
};

// The exit code of an error after `interrupted` has returned true; a shell reports the same for
// Ctrl-C.
inline constexpr auto interrupted_code = static_cast<base::ExitCode>(130);

// Runs the command in our environment and waits until it ends. It has its own process group, so
// that Ctrl-C on a terminal reaches only us and we end the command. It also ends if we are killed.
// No signals are blocked in it. Keeps the last 16 MiB of each of its streams. Errors: it cannot be
// started (the hint names the Debian package), it has not ended before the deadline, or it was
// interrupted.
[[nodiscard]] base::Result<base::Completed> run(const Command& command, const Watch& watch);

// Returns an error if the caller wants to give up.
[[nodiscard]] base::Result<void> check_interrupted(const Watch& watch);

// What skopeo was asked for. Used in messages.
struct Question {
    std::string image;              // as the user wrote it
    std::string registry;           // empty: the image is in a file or directory
    std::string credential_source;  // in words: "containerSettings.credentials (user me)", "none"
};

// Recognizes common faults in what skopeo printed: the registry cannot be reached, refuses access,
// does not have the image, has no TLS, or has a certificate of an unknown authority. skopeo's own
// words stay in the message if they say more than ours. The error's `exit_code` is not_found if
// there is no such image for this machine, refused if credentials are wrong or missing, else
// failed.
[[nodiscard]] base::Error explain(std::string_view standard_error, const Question& question);

// Returns the text of skopeo's last message without its time, level and quotes.
[[nodiscard]] std::string last_message(std::string_view standard_error);

}  // namespace batchai::image
