// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "store/store.hpp"

// The plans that were handed over to sbatch, srun and salloc. Each has a job directory of its own,
// which no record of the store names: Slurm alone knows the job.
namespace batchai::cli {

[[nodiscard]] std::filesystem::path handed_over_directory(const store::Store& store,
                                                          const std::string& uuid);

// The directories of the plans that a job may still need. That is so until the job's record says
// that it has ended; where no record does, for the four weeks that a job may wait in the queue
// (srun was interrupted, or the user's script never calls `batchai run`).
[[nodiscard]] std::vector<std::filesystem::path> needed_hand_overs(const store::Store& store);

// Removes the directories that no job needs any more, a week after the last sign of life, so that
// their logs can be read for some time. What cannot be removed now is found again next time.
void prune_handed_over(const store::Store& store);

}  // namespace batchai::cli
