// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "base/error.hpp"

namespace batchai::cli {

// Returns the names of the manual pages: "batchai", and "batchai-<command>" for each top-level
// command.
[[nodiscard]] std::vector<std::string> manual_pages(const CLI::App& app);

// Returns one of these pages in roff with the man macros. It has no date, so that builds are
// reproducible.
[[nodiscard]] base::Result<std::string> manual_page(const CLI::App& app, const std::string& page,
                                                    const std::string& version);

}  // namespace batchai::cli
