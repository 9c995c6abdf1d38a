// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/process.hpp"
#include "record/attempt.hpp"
#include "slurm/status.hpp"

// An elastic job keeps its nodes when one of them fails, but with the first one goes the batch
// script. Slurm 22.05 then fails the job if that node's slurmd lives, and else shows it as running
// until its time limit, with nobody who starts the ranks again (both tried). So another node of the
// job watches, in a step beside the others, and has the job queued again.
namespace batchai::run {

struct FirstNodeWatch {
    std::string job_id;       // Slurm's
    std::string node;         // the job's first
    std::string record_path;  // of the attempt that runs there
    std::string log_path;     // gets a line; empty: none
};

// The step's argv: `program` (batchai) on `node`, without a share of the node of its own.
[[nodiscard]] base::Arguments watch_arguments(const FirstNodeWatch& watch,
                                              const std::string& program, const std::string& node);

// The job has lost the node, while the attempt had not ended and nobody wanted the job's end.
[[nodiscard]] bool first_node_is_lost(const FirstNodeWatch& watch, const slurm::JobStatus& job,
                                      const record::Attempt& attempt);

// Looks now and then, and once more when Slurm ends the step (TERM); queues the job again when its
// first node is lost. Returns an exit code. Not reentrant: one call a process.
[[nodiscard]] int watch_first_node(const FirstNodeWatch& watch);

}  // namespace batchai::run
