// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/error.hpp"
#include "node/beneath.hpp"

// Which Slurm jobs use which directories below a user's private root: <root>/by-job/<slurm job id>
// holds one name a line. Several jobs can share a directory (job arrays do); it goes with the last.
namespace batchai::node {

// Makes <root>/<name> and notes that the job uses it; both under the root's lock, so that the
// clean-up of another job cannot come in between.
[[nodiscard]] base::Result<void> claim(const Root& root, const std::string& job_id,
                                       const std::string& name);

// Forgets the job and removes the directories that only it used. Never follows a link, never
// leaves the file system. A job that has no entry is none of ours: that is no error.
[[nodiscard]] base::Result<void> release(const Root& root, const std::string& job_id);

// A Slurm job id as it may become a file name: 1 to 10 digits.
[[nodiscard]] bool is_job_id(const std::string& text);

}  // namespace batchai::node
