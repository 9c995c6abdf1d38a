// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>

#include "cli/outcome.hpp"
#include "cli/report/names.hpp"
#include "cli/report/volume_flags.hpp"

namespace batchai::cli {

struct ClusterOptions {
    std::string name;
    ParentOptions parents;
    std::optional<std::string> config_file;
    std::optional<std::string> vm_size;
    std::optional<std::string> vm_priority;
    std::optional<int> target;
    std::optional<int> minimum;
    std::optional<int> maximum;
    std::optional<std::string> user_name;
    // Accepted because tutorials give them: nodes of a Slurm site have the site's accounts.
    bool generate_ssh_keys = false;
    std::optional<std::string> ssh_key;
    std::optional<std::string> password;
    VolumeFlags volumes;
    std::optional<std::string> storage_account;  // of the volumes
    bool yes = false;
    bool no_wait = false;
};

[[nodiscard]] Answer cluster_create(const ClusterOptions& options);
[[nodiscard]] Answer cluster_show(const ClusterOptions& options);
[[nodiscard]] Answer cluster_list(const ClusterOptions& options);
[[nodiscard]] Answer cluster_resize(const ClusterOptions& options);
[[nodiscard]] Answer cluster_auto_scale(const ClusterOptions& options);
[[nodiscard]] Answer cluster_delete(const ClusterOptions& options);

}  // namespace batchai::cli
