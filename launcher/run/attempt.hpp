// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "run/again/rank_restarts.hpp"
#include "run/context.hpp"

// `batchai run`, which carries out the plan of a job on the nodes that Slurm has given it.
// attempt.cpp lists the phases of an attempt and runs them in order. What they need is in these
// parts:
//
//   context.hpp      what the phases of an attempt share
//   phases/          each phase, and how the reports of its tasks are read; begin with phase.hpp
//   srun/            starts the steps of the job with srun, and finds out which tasks have started
//   tensorflow/      the ports and the parameter servers of a TensorFlow job
//   logs.hpp         the directory of the job's logs
//   line_merger.hpp  copies what the tasks print into the logs
//   blame/           finds out what ended a step or an attempt, and which task is to blame
//   again/           runs a job or an elastic job's ranks again, and warns ranks before they end
//   notify/          tells a webhook that the job has ended
namespace batchai::run {

// Runs the phases of one attempt at the job, in order. Each phase is in the record before it
// starts, and its end is there when the next one starts, so that a reader always sees how far the
// job has come. A job that is to run again after this attempt is then queued again, which `slurm`
// is asked for; `calls` are what is asked of it when the ranks may start again in the allocation.
// Returns the job's exit code.
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
