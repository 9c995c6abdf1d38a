// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "node/reply.hpp"
#include "plan/plan.hpp"

// The user's private directory on this node, such as /tmp/batchai-1001. The plan names it, but
// below a directory like /tmp anybody can make that name first. Then the user's directory is
// /tmp/batchai-1001.x7Gq2c, with letters that nobody could guess. Whoever looks for it later (other
// steps, the clean-up) finds it by its owner.

namespace batchai::node {

// Opens the user's directory, and makes it if there is none. `planned` is its first choice.
[[nodiscard]] base::Result<base::Root> open_node_root(const std::string& planned);

// All that the user has below `node_directory`. There can be two when somebody else's directory
// came and went while jobs ran.
[[nodiscard]] std::vector<base::Root> find_node_roots(const std::string& node_directory);

// Opens the user's directory as above. If it is not the one that the plan names, changes the plan's
// paths and variables to it, and says so in the trace.
[[nodiscard]] base::Result<plan::Plan> settle_node_root(plan::Plan plan, const Trace& trace);

// `text` with another directory in the place of each path that is `from` or below it.
[[nodiscard]] std::string with_other_root(const std::string& text, const std::string& from,
                                          const std::string& to);

// Makes `path`, which must be below the node root, and notes its first component there as used by
// the Slurm job, so that the clean-up after the job finds it.
[[nodiscard]] base::Result<base::Root> make_job_directory(const base::Root& node_root,
                                                          const std::string& path,
                                                          const std::string& job_id);

}  // namespace batchai::node
