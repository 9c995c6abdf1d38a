// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include <CLI/App.hpp>

namespace batchai::cli {

// Returns the completion script for "bash", "zsh" or "fish". It completes commands, options, and
// file names where a file is expected. The script starts no program.
[[nodiscard]] std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace batchai::cli
