// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <vector>

#include "base/error.hpp"
#include "plan/plan.hpp"

namespace batchai::plan {

inline constexpr const char* elastic_nodes_variable = "BATCHAI_ELASTIC_MIN_NODES";
inline constexpr const char* elastic_restarts_variable = "BATCHAI_ELASTIC_RESTARTS";

// "1": the job leaves drained nodes at its next commit.
inline constexpr const char* elastic_leave_drained_variable = "BATCHAI_ELASTIC_LEAVE_DRAINED";

// "1": ranks that are left after the loss of others go on in their processes, without them.
inline constexpr const char* elastic_keep_processes_variable = "BATCHAI_ELASTIC_KEEP_PROCESSES";

// A job whose ranks can continue from their last commit with fewer nodes than the job began with.
struct Elastic {
    int least_nodes = 1;  // with fewer nodes the job fails
    int restarts = 3;     // restarts of the ranks in one allocation; the next failure is final
    bool leaves_drained = false;  // gives back the nodes that somebody drains
    bool keeps_processes = false;

    bool operator==(const Elastic&) const = default;
};

// Reads the variables above from the job file's environmentVariables, which Batch AI's own
// service passes on without giving them a meaning. Returns nothing if the first is absent. Returns
// an error, with the variable as `where`, if a value makes no sense for a job of `nodes` nodes.
[[nodiscard]] base::Result<std::optional<Elastic>> elastic_of(
    const std::vector<Variable>& environment, int nodes);

// Returns whether the ranks of the job start again without a node that is lost (sbatch --no-kill):
// the job is elastic, or it has spare nodes. Any other job ends then, and Slurm queues it again.
[[nodiscard]] bool outlives_nodes(const Plan& plan, bool is_elastic);

}  // namespace batchai::plan
