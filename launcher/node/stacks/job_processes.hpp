// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <string>

#include <sys/types.h>

#include "visit/stacks/answer.hpp"

namespace batchai::node {

struct SeenProcess {
    visit::JobProcess process;
    // A launcher below Slurm, such as mpirun or torchrun, has given it its rank. Its ranks may be
    // in several steps, so they show none.
    bool launched = false;
    bool has_children = false;
};
using SeenProcesses = std::map<pid_t, SeenProcess>;

// Returns the processes of this user that belong to steps of the job on this node, except those of
// `own_step` and our own programs. What a process does not tell itself, because it has overwritten
// its environment or started with an empty one, is that of its parent.
[[nodiscard]] SeenProcesses processes_of_job(const std::string& job_id,
                                             const std::string& own_step);

// Takes out shells and the like, which only wait for their children. The children are then those of
// their parent.
void leave_out_waiting_shells(SeenProcesses& processes);

// Finds out which processes are the ranks themselves. A launcher that has started ranks has none.
void mark_tasks(SeenProcesses& processes);

}  // namespace batchai::node
