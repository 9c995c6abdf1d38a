// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <set>
#include <string>

#include "base/beneath.hpp"
#include "base/error.hpp"

// Records which Slurm jobs use which directories below a user's private root. The file
// <root>/by-job/<slurm job id> has one directory name per line. Several jobs can share a directory
// (job arrays do); it is removed with the last of them. The names that ended runs of a job have
// used are in <slurm job id>.over, so that the same job can be requeued and use its directories
// while those of its earlier run are still being cleaned up. <slurm job id>.boot has the boot id of
// the node from the time of the job's last claim.
namespace batchai::node {

// Makes <root>/<name> and records that the job uses it. Both happen under the root's lock, so that
// the clean-up of another job cannot come in between.
[[nodiscard]] base::Result<void> claim(const base::Root& root, const std::string& job_id,
                                       const std::string& name);

// Records that a run of the job is over. Everything that the job has claimed up to now counts as
// used by that run. Returns false if the job has claimed nothing or if this cannot be recorded.
[[nodiscard]] bool end_claims(const base::Root& root, const std::string& job_id);

// Removes the directories that only ended runs of the job used. Before that, it saves those of
// their files that remote storage does not have. If other processes are still storing such files,
// it waits for at most `patience`, and removes nothing if they have not finished by then. Never
// follows a symbolic link and never enters another file system.
[[nodiscard]] base::Result<void> release(const base::Root& root, const std::string& job_id,
                                         std::chrono::seconds patience);

// Returns the jobs that have left something that is no longer used: their clean-up has failed or is
// still going on, or the node was restarted while they ran.
[[nodiscard]] std::set<std::string> jobs_left(const base::Root& root);

// Returns true for a Slurm job id that can be a file name: 1 to 10 digits.
[[nodiscard]] bool is_job_id(const std::string& text);

}  // namespace batchai::node
