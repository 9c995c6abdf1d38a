// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "base/error.hpp"

namespace batchai::cli {

struct CommandTree;

// Adds --ids to the commands that show, change or end one resource: `job show`, `cluster delete`.
void add_ids_options(CommandTree& tree);

// Returns the command lines that --ids stands for, one for each id, with the options that name the
// resource and its parents in place of --ids. Without --ids these are the words as they are. It is
// an error (ExitCode::usage) if an id is none, is not that of such a resource, or if the resource
// is also named by other options. The words must be prepared (prepare_arguments()).
[[nodiscard]] base::Result<std::vector<std::vector<std::string>>> expand_ids(
    const CLI::App& app, const std::vector<std::string>& words);

}  // namespace batchai::cli
