// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/error.hpp"
#include "node/beneath.hpp"
#include "node/trace.hpp"
#include "plan/plan.hpp"

namespace batchai::node {

// Makes the plan's mounts below the mount roots, which are made first, in this process' own mount
// namespace. The first that fails is the error; it says which, where and why.
[[nodiscard]] base::Result<void> mount_volumes(const plan::Plan& plan, const Root& node_root,
                                               const std::string& job_id, const Trace& trace);

}  // namespace batchai::node
