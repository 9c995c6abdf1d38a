// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/process.hpp"
#include "record/attempt.hpp"
#include "slurm/status.hpp"

// An elastic job keeps its nodes when one of them fails, but if the first node fails, the batch
// script is lost with it. Slurm 22.05 then fails the job if that node's slurmd is alive; otherwise
// it shows the job as running until its time limit, although nothing is left to start the ranks
// again (both cases were tried). So another node of the job watches the first one, in a step beside
// the others, and has the job queued again.
namespace batchai::run {

struct FirstNodeWatch {
    std::string job_id;          // Slurm's job id
    std::string id_in_commands;  // ThisJob::id_in_commands(): only that task of an array job
    std::string node;            // the job's first node
    std::string record_path;     // of the attempt that runs on that node
    std::string log_path;        // gets a line about the outcome; empty: no log
};

// Returns the argument vector of the step that runs `program` (batchai) on `node`. The step shares
// the node with the job's other steps and takes no resources from them.
[[nodiscard]] base::Arguments watch_arguments(const FirstNodeWatch& watch,
                                              const std::string& program, const std::string& node);

// Returns whether the job has lost the node before the attempt ended, and not because somebody
// wanted the job to end.
[[nodiscard]] bool first_node_is_lost(const FirstNodeWatch& watch, const slurm::JobStatus& job,
                                      const record::Attempt& attempt);

// Checks the node every few seconds, and has the job queued again if the node is lost. Ends when it
// receives end_of_background_step. After TERM, it ends when the job's fate is decided, or after 20
// seconds at the latest. Returns an exit code. Not reentrant: call it only once in a process.
[[nodiscard]] int watch_first_node(const FirstNodeWatch& watch);

}  // namespace batchai::run
