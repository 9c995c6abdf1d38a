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
#include "image/resolve.hpp"
#include "job/model.hpp"
#include "plan/plan.hpp"
#include "site/site.hpp"
#include "slurm/client.hpp"
#include "store/store.hpp"

// The container image of a job: from the name in job.json or on the command line to the entry in
// the image cache.

namespace batchai::submit {

// Replaces the file's image by that of --job-image. The file's credentials are kept if the registry
// is the same. If `image` is not an image name, the error's `where` is "--job-image".
[[nodiscard]] base::Result<void> apply_job_image(job::JobSpec& spec, const std::string& image);

// Returns the credentials that the job file has for its registry, if any.
[[nodiscard]] std::optional<image::Login> login_of(const job::ContainerSettings& settings);

[[nodiscard]] image::Places image_places(const store::Store& store, const site::Site& site);

// Resolves the image, which asks its registry if it has one. The settings must have been planned,
// which checks the names in them.
[[nodiscard]] base::Result<image::Resolved> resolve_image(const store::Store& store,
                                                          const site::Site& site,
                                                          const job::ContainerSettings& settings);

// Imports the image unless it is in the cache, and shows the progress on standard error. SIGINT,
// SIGTERM and SIGHUP stop the import, which then leaves nothing behind.
[[nodiscard]] base::Result<image::Ensured> ensure_image(const store::Store& store,
                                                        const slurm::Client& slurm,
                                                        const plan::Container& container,
                                                        const image::Access& access);

// Returns the digests of the images of jobs that have not ended, according to the user's own
// records. If Slurm does not answer, a job without a recorded end counts as not ended.
[[nodiscard]] std::set<std::string> images_in_use(const store::Store& store,
                                                  const slurm::Client& slurm);

// The plans that were handed over to sbatch, srun and salloc. Each has a job directory of its own.
// The store has no record of these jobs; only Slurm knows them.

[[nodiscard]] std::filesystem::path handed_over_directory(const store::Store& store,
                                                          const std::string& uuid);

// Returns the directories of the plans that a job may still need. A plan is needed until the job's
// record says that the job has ended, but not for longer than a year, because a job that was killed
// has no recorded end. If no attempt is recorded (srun was interrupted, or the user's script never
// calls `batchai run`), the plan is needed for four weeks, the longest time that a job may wait in
// the queue.
[[nodiscard]] std::vector<std::filesystem::path> needed_hand_overs(const store::Store& store);

// Removes the directories that no job needs any more, a week after the last recorded activity, so
// that the logs can be read for some time. A directory that cannot be removed is tried again next
// time.
void prune_handed_over(const store::Store& store);

}  // namespace batchai::submit
