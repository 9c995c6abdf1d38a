// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <set>
#include <string>

#include "base/beneath.hpp"
#include "base/error.hpp"

// Records which Slurm jobs use which directories below a user's private root. The file
// <root>/by-job/<slurm job id> has one directory name per line. Several jobs can share a directory;
// it is removed with the last of them. The names that ended runs of a job have used are in
// <slurm job id>.over, so that the same job can be requeued and use its directories while those of
// its earlier run are still being cleaned up. <slurm job id>.boot has the boot id of the node from
// the time of the job's last claim. <slurm job id>.process-<uuid> has the names that one process
// uses; the process holds a lock on the file. Without any entry there is no directory by-job.
namespace batchai::node {

// Makes <root>/<name> and records that the job uses it. Both happen under the root's lock, so that
// the clean-up of another job cannot come in between.
[[nodiscard]] base::Result<void> claim(const base::Root& root, const std::string& job_id,
                                       const std::string& name);

// As claim(), but only as long as the returned descriptor is open: for a process that may run where
// no epilog comes, or before the epilog knows of the job.
[[nodiscard]] base::Result<base::FileDescriptor> claim_for_process(const base::Root& root,
                                                                   const std::string& job_id,
                                                                   const std::string& name);

// Records that a run of the job is over. Everything that the job and its processes have claimed up
// to now counts as used by that run. Returns false if there was no such claim. Needs no room on the
// file system unless an earlier run is still being cleaned up.
[[nodiscard]] base::Result<bool> end_claims(const base::Root& root, const std::string& job_id);

// Records the same for the claims of all processes that have closed their descriptors or ended.
[[nodiscard]] base::Result<void> end_claims_of_ended_processes(const base::Root& root);

// Removes the directories that only ended runs of the job used. Before that, it saves those of
// their files that remote storage does not have. If other processes are still storing such files,
// it waits for at most `patience`, and removes nothing if they have not finished by then. Never
// follows a symbolic link and never enters another file system. Returns false if it has kept data
// that could not be saved (see volumes/unsaved.hpp).
[[nodiscard]] base::Result<bool> release(const base::Root& root, const std::string& job_id,
                                         std::chrono::seconds patience);

// The jobs that have left something that is no longer used.
struct JobsLeft {
    std::set<std::string> ended;        // their clean-up has failed or is still going on
    std::set<std::string> interrupted;  // the node was restarted while they ran
    // Those that have claimed nothing for long. Only Slurm knows whether they still run: it does
    // not repeat an epilog that the end of its slurmd has cut short.
    std::set<std::string> doubtful;
};

// A job is doubtful when it has claimed nothing for so long, or is so long known to run.
constexpr std::chrono::minutes beyond_doubt{10};

// Notes that the job runs.
void note_running(const base::Root& root, const std::string& job_id);

[[nodiscard]] base::Result<JobsLeft> jobs_left(const base::Root& root);

}  // namespace batchai::node
