// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "base/error.hpp"
#include "node/beneath.hpp"
#include "plan/plan.hpp"

namespace batchai::node {

// Shows mount.source, with what is mounted below it, at mount.target below `root`, in this process'
// own mount namespace. The source is opened with the user's rights; read-only holds before the
// mount is visible. Needs Linux 5.12.
[[nodiscard]] base::Result<void> bind_mount(const plan::Mount& mount, const Root& root);

}  // namespace batchai::node
