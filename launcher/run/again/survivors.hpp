// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "plan/plan.hpp"
#include "slurm/client.hpp"
#include "slurm/status.hpp"

// What an elastic job has left when some of its nodes are lost.
namespace batchai::run {

// Those of `nodes`, in their order, that are still the job's and that can start tasks: neither
// down, failing nor silent. Draining ones can: their jobs are to come to an end.
[[nodiscard]] std::vector<std::string> survivors(const std::vector<std::string>& nodes,
                                                 const slurm::JobStatus& job,
                                                 const std::vector<slurm::NodeStatus>& statuses);

// The same with what Slurm says now.
[[nodiscard]] base::Result<std::vector<std::string>> ask_for_survivors(
    const slurm::Client& client, const std::string& job_id, const std::vector<std::string>& nodes);

// The step with as many processes on each node as before, on so many nodes.
[[nodiscard]] plan::Step shrunk(const plan::Step& step, std::size_t nodes);

}  // namespace batchai::run
