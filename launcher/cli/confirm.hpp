// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "base/error.hpp"

namespace batchai::cli {

// Asks on the terminal before something is lost; `yes` skips the question. True: go on. Without a
// terminal nobody can answer, which is an error (ExitCode::usage).
[[nodiscard]] base::Result<bool> confirm(bool yes);

}  // namespace batchai::cli
