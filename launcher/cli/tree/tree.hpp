// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "cli/output/output.hpp"

// The command line as a CLI11 tree. Parsing, --help, the man pages and completion all use this
// tree. In this folder are:
//
//   builder.hpp     adds verbs to the tree
//   parser.hpp      declares the options of a verb, with CLI11 behind it
//   ids.hpp         --ids, which stands for the names of resources
//   refused.hpp     commands and options of the Azure CLI without a meaning on Slurm
//   walk.hpp        goes through the tree, and prepares the words for parsing
//   completion.cpp  the completion scripts
//   manual.cpp      the manual pages
//
// Beside it are:
//
//   verbs/   the commands; each file registers itself
//   output/  results as JSON, YAML and tables, queries, and what is said on the terminal
namespace batchai::cli {

struct GlobalOptions {
    std::string output = "json";
    std::optional<std::string> query;
    std::optional<std::string> subscription;  // without effect: a site is one subscription
    bool verbose = false;
    bool debug = false;
    bool only_show_errors = false;
    // The values of --ids, which expand_ids() has replaced before parsing.
    std::vector<std::string> ids;
};

struct CommandTree {
    CLI::App app{"Runs Batch AI jobs on a Slurm cluster", "batchai"};
    GlobalOptions global;
    // What parsing has to say about options without a meaning here (AzureOption).
    std::vector<std::string> refused_options;
    std::vector<std::string> noted_options;
    // The action of the verb on the command line. Parsing sets it.
    std::function<Answer()> action;
};

// Makes the tree of all verbs that are registered.
[[nodiscard]] std::unique_ptr<CommandTree> make_tree();

// Returns the completion script for "bash", "zsh" or "fish" of the program under this name, which
// is "batchai" or "az". It completes commands, options, and file names where a file is expected.
// The script starts no program. The one for "az" does nothing if "az" is not a link to batchai.
[[nodiscard]] std::string completion_script(const CLI::App& app, const std::string& shell,
                                            const std::string& name = "batchai");

// Returns the names of the manual pages: "batchai", and "batchai-<command>" for each top-level
// command.
[[nodiscard]] std::vector<std::string> manual_pages(const CLI::App& app);

// Returns one of these pages in roff with the man macros. It has no date, so that builds are
// reproducible.
[[nodiscard]] base::Result<std::string> manual_page(const CLI::App& app, const std::string& page,
                                                    const std::string& version);

}  // namespace batchai::cli
