// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <set>
#include <string>

#include "base/beneath.hpp"
#include "base/error.hpp"

// Which Slurm jobs use which directories below a user's private root: <root>/by-job/<slurm job id>
// holds one name a line. Several jobs can share a directory (job arrays do); it goes with the last.
// The names of a job that has ended are in <slurm job id>.over, so that the same job, queued again,
// can use its directories while they are being cleaned up after its earlier run. <slurm job
// id>.boot says during which run of the node it has claimed them.
namespace batchai::node {

// Makes <root>/<name> and notes that the job uses it; both under the root's lock, so that the
// clean-up of another job cannot come in between.
[[nodiscard]] base::Result<void> claim(const base::Root& root, const std::string& job_id,
                                       const std::string& name);

// Notes that a run of the job is over: what it used is what the job has claimed up to now. False
// when it has claimed nothing.
[[nodiscard]] bool end_claims(const base::Root& root, const std::string& job_id);

// Removes the directories that only ended runs of the job used. What remote storage has not got of
// them is saved before; for others who are still storing it waits, at most for `patience`, and it
// removes nothing if they go on. Never follows a link, never leaves the file system.
[[nodiscard]] base::Result<void> release(const base::Root& root, const std::string& job_id,
                                         std::chrono::seconds patience);

// The jobs of which something is left that nobody uses: their clean-up has failed or goes on, or
// the node was started anew while they ran.
[[nodiscard]] std::set<std::string> jobs_left(const base::Root& root);

// A Slurm job id as it may become a file name: 1 to 10 digits.
[[nodiscard]] bool is_job_id(const std::string& text);

}  // namespace batchai::node
