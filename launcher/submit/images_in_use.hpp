// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <set>
#include <string>

#include "base/error.hpp"
#include "slurm/client.hpp"
#include "store/store.hpp"

namespace batchai::submit {

// Returns the digests of the images of jobs that have not ended, according to the user's own
// records. If Slurm does not answer, a job without a recorded end counts as not ended. It is an
// error if records cannot be read that may name such an image: nothing must be removed then.
[[nodiscard]] base::Result<std::set<std::string>> images_in_use(const store::Store& store,
                                                                const slurm::Client& slurm);

// Returns the same. For an import that makes room in the cache: warns if they are not known,
// because the cache may grow beyond its limit then.
[[nodiscard]] base::Result<std::set<std::string>> warned_if_unknown(
    base::Result<std::set<std::string>> in_use);

}  // namespace batchai::submit
