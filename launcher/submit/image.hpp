// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>

#include "base/error.hpp"
#include "image/credentials.hpp"
#include "image/ensure.hpp"
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

// Imports the image unless it is in the cache, and shows the progress on standard error. SIGINT,
// SIGTERM and SIGHUP stop the import, which then leaves nothing behind.
[[nodiscard]] base::Result<image::Ensured> ensure_image(const store::Store& store,
                                                        const slurm::Client& slurm,
                                                        const image::FrozenImage& frozen,
                                                        const image::Access& access);

}  // namespace batchai::submit
