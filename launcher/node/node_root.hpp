// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "node/reply.hpp"
#include "plan/plan.hpp"

// The user's private directory on this node, such as /tmp/batchai-1001. The plan names it, but in a
// directory like /tmp another user can take that name first. In that case the user's directory is
// /tmp/batchai-1001.x7Gq2c, with a suffix that nobody could guess. Later steps and the clean-up
// find it by its owner.
//
// Where several slurmd run on a host, each of its nodes has a directory of its own, such as
// /tmp/batchai-1001-n2: a job has a container and temporary files on each of its nodes, and the
// epilog of one node must not remove those of another.

namespace batchai::node {

// Returns the preferred path on this node: `planned`, or the one of this node if its host has
// several. What this has returned once stays as it is.
[[nodiscard]] std::string node_root_here(const std::string& planned);

// Opens the user's directory, or makes it if there is none. `planned` is what the plan says.
[[nodiscard]] base::Result<base::Root> open_node_root(const std::string& planned);

// Returns all private directories that the user has for this node below `node_directory`. There can
// be two if a directory of another user had the preferred name for part of the time while jobs ran.
[[nodiscard]] std::vector<base::Root> find_node_roots(const std::string& node_directory);

// Opens the user's directory as open_node_root does. If it is not the one that the plan names,
// changes the plan's paths and variables accordingly and writes that to the trace.
[[nodiscard]] base::Result<plan::Plan> settle_node_root(plan::Plan plan, const Trace& trace);

// Makes `path`, which must be below the node root, and registers its first component below the node
// root as used by the Slurm job, so that the clean-up after the job finds it.
[[nodiscard]] base::Result<base::Root> make_job_directory(const base::Root& node_root,
                                                          const std::string& path,
                                                          const std::string& job_id);

}  // namespace batchai::node
