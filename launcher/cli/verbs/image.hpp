// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/outcome.hpp"

namespace batchai::cli {

struct ImageOptions {
    std::vector<std::string> images;  // names, or digests, also their beginnings
    std::optional<std::string> server_url;
    bool shared = false;  // in the site's shared directory instead of the user's
    int unused_for = 0;   // days
    bool yes = false;
};

[[nodiscard]] Answer image_list(const ImageOptions& options);
[[nodiscard]] Answer image_pull(const ImageOptions& options);
[[nodiscard]] Answer image_remove(const ImageOptions& options);
[[nodiscard]] Answer image_prune(const ImageOptions& options);

}  // namespace batchai::cli
