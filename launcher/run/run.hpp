// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "image/cache.hpp"

namespace batchai::run {

struct RunOptions {
    std::string plan_path;       // absolute
    std::string digest;          // SHA-256 of the plan file, 64 hexadecimal digits
    image::InUse images_in_use;  // asked when an import has to make room in the cache
};

// `batchai run`: carries out the plan inside a Slurm allocation. Makes the output directories and
// the host file, imports the container's image if it has one, runs preparation once per node,
// proves that PMIx wires the ranks, runs the ranks, and keeps the attempt's record up to date.
// Forwards TERM, INT, HUP, USR1 and USR2 to the running step. Returns the job's exit code. For a
// fault of our own (no allocation, a plan that has changed) it prints a message on standard error
// and returns an ExitCode. Not reentrant: call it only once in a process.
[[nodiscard]] int run_job(const RunOptions& options);

}  // namespace batchai::run
