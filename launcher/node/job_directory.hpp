// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/error.hpp"
#include "node/beneath.hpp"

namespace batchai::node {

// Makes `path`, which must be below the node root, and notes its first component there as used by
// the Slurm job, so that the clean-up after the job finds it.
[[nodiscard]] base::Result<Root> make_job_directory(const Root& node_root, const std::string& path,
                                                    const std::string& job_id);

}  // namespace batchai::node
