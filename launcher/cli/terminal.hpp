// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>

#include "base/error.hpp"

namespace batchai::cli {

// Asks on the terminal before something is lost; `yes` skips the question. True: go on. Without a
// terminal nobody can answer, which is an error (ExitCode::usage).
[[nodiscard]] base::Result<bool> confirm(bool yes);

// While it lives, Ctrl-C does not end the program but is noted, so that a command that follows a
// job can leave with a word. One at a time.
class Interruption {
  public:
    Interruption();
    ~Interruption();
    Interruption(const Interruption&) = delete;
    Interruption& operator=(const Interruption&) = delete;

    [[nodiscard]] static bool requested();
    // Sleeps, at most until Ctrl-C.
    static void sleep(std::chrono::milliseconds time);
};

}  // namespace batchai::cli
