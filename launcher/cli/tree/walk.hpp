// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "base/error.hpp"

namespace batchai::cli {

// The subcommands that users see, in the order in which they were added.
[[nodiscard]] std::vector<const CLI::App*> visible_commands(const CLI::App& app);

// The options that users see; `positionals` or the named ones.
[[nodiscard]] std::vector<const CLI::Option*> visible_options(const CLI::App& app,
                                                              bool positionals);

// A command and its path: {"job", "file", "list"}; the root has an empty path.
struct Command {
    const CLI::App* app = nullptr;
    std::vector<std::string> path;

    [[nodiscard]] std::string text() const;  // "job file list"
};

// The tree from `app` down, parents before children.
[[nodiscard]] std::vector<Command> all_commands(const CLI::App& app);

// "--name" and "-n" of an option.
[[nodiscard]] std::vector<std::string> option_words(const CLI::Option& option);

// The words after the program's name, made ready for parsing: "batchai" as the first word is
// dropped (az batchai …), unique beginnings of long options are completed. An unknown command or
// long option is an error (ExitCode::usage) with a guess.
[[nodiscard]] base::Result<std::vector<std::string>> prepare_arguments(
    const CLI::App& app, std::vector<std::string> words);

}  // namespace batchai::cli
