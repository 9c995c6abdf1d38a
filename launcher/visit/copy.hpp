// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "plan/plan.hpp"
#include "visit/node_path.hpp"
#include "visit/visit.hpp"

// Files of a job's node, from and to this host: `job cp`.
namespace batchai::visit {

// Returns why nothing can be copied from or to a job that has ended, and where the file is if it
// was on storage that this host may see as well.
[[nodiscard]] base::Error gone_with_the_job(const status::JobView& view, const plan::Plan& plan,
                                            const NodePath& path);

struct CopyWish {
    VisitedNode place;
    NodePath there;
    std::string here;
    bool recursive = false;
};
// Return the exit code of the command, which is not 0 if something was passed over.
[[nodiscard]] base::Result<int> copy_from_node(const RunningJob& running, const CopyWish& wish);
[[nodiscard]] base::Result<int> copy_to_node(const RunningJob& running, const CopyWish& wish);

}  // namespace batchai::visit
