// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "base/error.hpp"

namespace batchai::cli {

// Returns the subcommands that users see, in the order in which they were added.
[[nodiscard]] std::vector<const CLI::App*> visible_commands(const CLI::App& app);

// Returns the options that users see: the positional ones if `positionals`, else the named ones.
[[nodiscard]] std::vector<const CLI::Option*> visible_options(const CLI::App& app,
                                                              bool positionals);

// A command and its path, such as {"job", "file", "list"}. The root has an empty path.
struct Command {
    const CLI::App* app = nullptr;
    std::vector<std::string> path;

    [[nodiscard]] std::string text() const;  // "job file list"
};

// Returns `app` and all visible commands below it, parents before children.
[[nodiscard]] std::vector<Command> all_commands(const CLI::App& app);

// Returns the names of an option with their dashes: "--name", "-n".
[[nodiscard]] std::vector<std::string> option_words(const CLI::Option& option);

// Ends a word after "--" that CLI11 would take for a list, such as "[a,b]". A verb that passes such
// words on removes it.
inline constexpr char literal_mark = '\0';

// The group of options whose names are those of older releases. Abbreviations do not mean them.
inline constexpr const char* old_names = "Names of Older Releases";

// Prepares the words after the program's name for parsing. Drops a leading "batchai" (as in "az
// batchai …") and completes unique prefixes of long options. An unknown command or long option is
// an error (ExitCode::usage), which suggests a similar name.
[[nodiscard]] base::Result<std::vector<std::string>> prepare_arguments(
    const CLI::App& app, std::vector<std::string> words);

}  // namespace batchai::cli
