// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "image/credentials.hpp"
#include "image/ensure.hpp"
#include "image/reference.hpp"
#include "job/model.hpp"
#include "plan/plan.hpp"
#include "site/site.hpp"
#include "slurm/client.hpp"
#include "store/store.hpp"

// The image of a job, from the words of job.json or the command line to a file in the cache.

namespace batchai::cli {

// What --job-image says, in place of the file's image. Credentials of the file stay when the
// registry is the same one. An error with where = "--job-image" when it is no image.
[[nodiscard]] base::Result<void> apply_job_image(job::JobSpec& spec, const std::string& image);

// The credentials that the job file has for its registry, if any.
[[nodiscard]] std::optional<image::Login> login_of(const job::ContainerSettings& settings);

[[nodiscard]] image::Places image_places(const store::Store& store, const site::Site& site);

// Asks the registry. The settings have been planned, so that their names are right.
[[nodiscard]] base::Result<plan::Container> resolve_image(const store::Store& store,
                                                          const site::Site& site,
                                                          const job::ContainerSettings& settings);

// Imports the image unless it is there, with progress on standard error; Ctrl-C and TERM stop it
// and leave nothing.
[[nodiscard]] base::Result<image::Ensured> ensure_image(const store::Store& store,
                                                        const slurm::Client& slurm,
                                                        const plan::Container& container,
                                                        const image::Access& access);

// The digests of images of jobs that have not ended, as far as the user's own records tell. Where
// Slurm does not answer, a job counts as not ended.
[[nodiscard]] std::set<std::string> images_in_use(const store::Store& store,
                                                  const slurm::Client& slurm);

// The plans that were handed over to sbatch, srun and salloc. Each has a job directory of its own,
// which no record of the store names: Slurm alone knows the job.

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
