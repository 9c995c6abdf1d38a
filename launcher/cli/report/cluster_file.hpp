// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "cli/output/value.hpp"
#include "store/records.hpp"

namespace batchai::cli {

// What a cluster.json says, as far as it means something on Slurm.
struct ClusterFile {
    std::optional<std::string> vm_size;
    std::optional<store::VmPriority> vm_priority;
    std::optional<store::ScaleSettings> scale;
    std::optional<std::string> admin_user_name;
    Value mount_volumes;  // of nodeSetup, unchecked; null: none
    // Settings that are accepted and have no effect, for a warning: "virtualMachineConfiguration".
    std::vector<std::string> without_effect;
};

// Errors name the file and the key (ExitCode::bad_job_file); all in one message.
[[nodiscard]] base::Result<ClusterFile> parse_cluster_file(std::string_view text,
                                                           const std::string& file_name);

struct ScaleFlags {
    std::optional<int> target;
    std::optional<int> minimum;
    std::optional<int> maximum;
};

// --target, --min and --max by Batch AI's rules; nothing when none of the three is given.
[[nodiscard]] base::Result<std::optional<store::ScaleSettings>> scale_from_flags(
    const ScaleFlags& flags);

}  // namespace batchai::cli
