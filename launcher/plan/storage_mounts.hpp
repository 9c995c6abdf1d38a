// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "job/model.hpp"
#include "plan/planning.hpp"

namespace batchai::plan {

// The mountVolumes that are planned: the job's own, or those of its cluster.
struct VolumeList {
    Planning& planning;
    const job::MountVolumes& volumes;
    MountScope scope = MountScope::job;

    // Reports a fault at `key` of the volume. One of the cluster's has no place in the job file:
    // the message names the cluster instead.
    void fault(Finding finding, std::string_view kind, std::size_t index, std::string_view key,
               const std::string& message, std::string hint = {}) const;
    void notice(const std::string& text) const { planning.plan.notices.push_back(text); }
};

// What the mountOptions say goes to the mount, and is false where they are refused.
[[nodiscard]] bool apply_mount_options(const VolumeList& list, std::size_t index,
                                       const std::optional<std::string>& options, Mount& mount);

// azureFileShares and azureBlobFileSystems: directories of the site, else remote storage, else the
// launcher's own default storage.
void plan_storage_mounts(const VolumeList& list);

}  // namespace batchai::plan
