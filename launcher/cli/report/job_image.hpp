// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>

#include "base/error.hpp"
#include "image/access.hpp"
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

}  // namespace batchai::cli
