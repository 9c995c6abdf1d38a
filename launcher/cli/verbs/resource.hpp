// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/outcome.hpp"
#include "cli/report/names.hpp"

namespace batchai::cli {

// Options of group, workspace and experiment; `name` is the resource itself, `parents` what it is
// in.
struct ResourceOptions {
    std::string name;
    ParentOptions parents;
    std::optional<std::string> location;
    std::vector<std::string> tags;  // "key=value" or "key"
    bool yes = false;
    bool no_wait = false;
};

[[nodiscard]] Answer group_create(const ResourceOptions& options);
[[nodiscard]] Answer group_show(const ResourceOptions& options);
[[nodiscard]] Answer group_list(const ResourceOptions& options);
[[nodiscard]] Answer group_delete(const ResourceOptions& options);

[[nodiscard]] Answer workspace_create(const ResourceOptions& options);
[[nodiscard]] Answer workspace_show(const ResourceOptions& options);
[[nodiscard]] Answer workspace_list(const ResourceOptions& options);
[[nodiscard]] Answer workspace_delete(const ResourceOptions& options);

[[nodiscard]] Answer experiment_create(const ResourceOptions& options);
[[nodiscard]] Answer experiment_show(const ResourceOptions& options);
[[nodiscard]] Answer experiment_list(const ResourceOptions& options);
[[nodiscard]] Answer experiment_delete(const ResourceOptions& options);

}  // namespace batchai::cli
