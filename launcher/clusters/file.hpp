// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "cli/output/output.hpp"
#include "store/records.hpp"

namespace batchai::clusters {

// The settings of a cluster.json that have a meaning on Slurm.
struct ClusterFile {
    std::optional<std::string> vm_size;
    std::optional<store::VmPriority> vm_priority;
    std::optional<store::ScaleSettings> scale;
    std::optional<std::string> admin_user_name;
    // nodeSetup.setupTask as the cluster's record keeps it, still without stdOutErrPathSuffix; null
    // if absent.
    base::Value setup_task;
    base::Value mount_volumes;  // nodeSetup.mountVolumes, unchecked; null if absent
    // Settings that are accepted without effect, such as "virtualMachineConfiguration"; the user is
    // warned about them.
    std::vector<std::string> without_effect;
};

// Parses a cluster.json. One error (ExitCode::bad_job_file) reports all faults, each with the file
// and the key.
[[nodiscard]] base::Result<ClusterFile> parse_cluster_file(std::string_view text,
                                                           const std::string& file_name);

// Returns such a setup task.
[[nodiscard]] base::Value setup_task(const std::string& command_line, const std::string& prefix,
                                     base::Value::Array variables = {});

struct ScaleFlags {
    std::optional<int> target;
    std::optional<int> minimum;
    std::optional<int> maximum;
};

// Combines --target, --min and --max by Batch AI's rules. Returns nothing if none of them is given.
[[nodiscard]] base::Result<std::optional<store::ScaleSettings>> scale_from_flags(
    const ScaleFlags& flags);

}  // namespace batchai::clusters
