// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "base/error.hpp"
#include "base/file.hpp"
#include "node/beneath.hpp"
#include "plan/plan.hpp"

namespace batchai::node {

// Opens mount.source (O_PATH) with the user's rights. What comes after mount.source_root may be
// links, but none that lead out of it.
[[nodiscard]] base::Result<base::FileDescriptor> open_mount_source(const plan::Mount& mount);

// Shows mount.source, with what is mounted below it, at mount.target below `root`, in this process'
// own mount namespace. Read-only and no-execute hold before the mount is visible. Needs Linux 5.12.
[[nodiscard]] base::Result<void> bind_mount(const plan::Mount& mount, const Root& root);

}  // namespace batchai::node
