// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "base/error.hpp"

namespace batchai::cli {

// The words after the program's name, made ready for parsing: "batchai" as the first word is
// dropped (az batchai …), unique beginnings of long options are completed. An unknown command or
// long option is an error (ExitCode::usage) with a guess.
[[nodiscard]] base::Result<std::vector<std::string>> prepare_arguments(
    const CLI::App& app, std::vector<std::string> words);

}  // namespace batchai::cli
