// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <vector>

#include "base/error.hpp"
#include "slurm/client.hpp"
#include "store/store.hpp"

namespace batchai::cli {

// Cancels those of the jobs that have not ended, and marks them as stopped by the user. With
// `wait`, returns when Slurm has ended them, at most after two minutes (ExitCode::timed_out).
[[nodiscard]] base::Result<void> stop_jobs(const store::Store& store, const slurm::Client& client,
                                           const std::vector<store::Job>& jobs, bool wait);

}  // namespace batchai::cli
