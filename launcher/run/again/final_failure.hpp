// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>

#include "slurm/client.hpp"
#include "slurm/this_job.hpp"

namespace batchai::run {

// Must be called before the batch script of a job that is not run again ends with another exit code
// than 0. Slurm queues a job with --requeue=expedite again when it fails. Unless an epilog fails as
// well, it then holds the job for its user, so that nobody who waits for the job's end would see it
// (batch_requeue_fini() in Slurm's src/slurmctld/job_mgr.c). This function tells Slurm not to queue
// the job again, which Slurm lets its user do as long as the script runs. Does nothing for another
// job, nor for one that Slurm itself is ending. Returns a line for the log if something was to do.
[[nodiscard]] std::optional<std::string> let_fail(const slurm::Client& client,
                                                  const slurm::ThisJob& job);

}  // namespace batchai::run
