// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "base/error.hpp"

namespace batchai::cli {

// "batchai", and "batchai-<verb>" for each verb of the first level.
[[nodiscard]] std::vector<std::string> manual_pages(const CLI::App& app);

// One of them in roff (man macros). Without a date, so that builds can be reproduced.
[[nodiscard]] base::Result<std::string> manual_page(const CLI::App& app, const std::string& page,
                                                    const std::string& version);

}  // namespace batchai::cli
