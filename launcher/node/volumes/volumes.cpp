// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/volumes/volumes.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "node/bind_mount.hpp"
#include "node/job_directory.hpp"

namespace batchai::node {

namespace {

// Outer mounts before those inside them.
std::vector<plan::Mount> outer_first(std::vector<plan::Mount> mounts) {
    const auto depth = [](const plan::Mount& mount) {
        return std::count(mount.target.begin(), mount.target.end(), '/');
    };
    std::stable_sort(mounts.begin(), mounts.end(), [&](const auto& left, const auto& right) {
        return depth(left) < depth(right);
    });
    return mounts;
}

}  // namespace

base::Result<void> mount_volumes(const plan::Plan& plan, const Root& node_root,
                                 const std::string& job_id, const Trace& trace) {
    const auto& directories = plan.directories;
    for (const std::string& path : {directories.mount_root, directories.job_mount_root}) {
        const auto made = make_job_directory(node_root, path, job_id);
        if (!made) return tl::unexpected<base::Error>(made.error());
    }
    for (const plan::Mount& mount : outer_first(plan.mounts)) {
        const bool of_job = mount.scope == plan::MountScope::job;
        const auto root = make_job_directory(
            node_root, of_job ? directories.job_mount_root : directories.mount_root, job_id);
        if (!root) return tl::unexpected<base::Error>(root.error());
        if (auto mounted = bind_mount(mount, *root); !mounted) return mounted;
        trace.line(fmt::format("mounted {} \"{}\" ({}) at {}/{}{}", mount.kind, mount.name,
                               mount.source, root->path, mount.target,
                               mount.read_only ? ", read-only" : ""));
    }
    return {};
}

}  // namespace batchai::node
