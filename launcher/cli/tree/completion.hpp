// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include <CLI/App.hpp>

namespace batchai::cli {

// The completion script of the tree for "bash", "zsh" or "fish": commands, options, and file names
// where a file is asked for. The script calls no program.
[[nodiscard]] std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace batchai::cli
