// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <set>
#include <string>

#include "slurm/client.hpp"
#include "store/store.hpp"

namespace batchai::submit {

// Returns the digests of the images of jobs that have not ended, according to the user's own
// records. If Slurm does not answer, a job without a recorded end counts as not ended.
[[nodiscard]] std::set<std::string> images_in_use(const store::Store& store,
                                                  const slurm::Client& slurm);

}  // namespace batchai::submit
