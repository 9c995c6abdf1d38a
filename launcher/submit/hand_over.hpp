// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "store/store.hpp"

// The plans that were handed over to sbatch, srun and salloc. Each has a job directory of its own.
// The store has no record of these jobs; only Slurm knows them.
namespace batchai::submit {

[[nodiscard]] std::filesystem::path handed_over_directory(const store::Store& store,
                                                          const std::string& uuid);

// Returns the directories of the plans that a job may still need. A plan is needed until the job's
// record says that the job has ended, but not for longer than a year, because a job that was killed
// has no recorded end. If no attempt is recorded (srun was interrupted, or the user's script never
// calls `batchai run`), the plan is needed for four weeks, the longest time that a job may wait in
// the queue.
[[nodiscard]] base::Result<std::vector<std::filesystem::path>> needed_hand_overs(
    const store::Store& store);

// Removes the directories that no job needs any more, a week after the last recorded activity, so
// that the logs can be read for some time. A directory that cannot be removed is tried again next
// time.
void prune_handed_over(const store::Store& store);

}  // namespace batchai::submit
