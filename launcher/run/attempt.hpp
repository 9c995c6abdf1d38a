// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "run/again/elastic.hpp"
#include "run/context.hpp"

namespace batchai::run {

// Runs the phases of one attempt at the job, in order. Each phase is in the record before it
// starts, and its end is there when the next one starts, so that a reader always sees how far the
// job has come. A job that is to run again after this attempt is then queued again, which `slurm`
// is asked for; `calls` are what an elastic job asks of Slurm. Returns the job's exit code.
[[nodiscard]] int run_attempt(Context& context, Journal& journal, const slurm::Client& slurm,
                              SlurmCalls calls);

// `batchai run`: carries out the plan inside a Slurm allocation. Makes the output directories and
// the host file, imports the container's image if it has one, runs preparation once per node,
// proves that PMIx wires the ranks, runs the ranks, and keeps the attempt's record up to date.
// Forwards TERM, INT, HUP, USR1 and USR2 to the running step. Returns the job's exit code. For a
// fault of our own (no allocation, a plan that has changed) it prints a message on standard error
// and returns an ExitCode. Not reentrant: call it only once in a process.
[[nodiscard]] int run_job(const RunOptions& options);

}  // namespace batchai::run
