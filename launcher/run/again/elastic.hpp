// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "plan/plan.hpp"
#include "run/context.hpp"
#include "run/srun/step.hpp"
#include "slurm/client.hpp"
#include "slurm/status.hpp"

// What an elastic job does when some of its nodes are lost.
namespace batchai::run {

// Returns the nodes among `nodes`, in the same order, that still belong to the job and can start
// tasks. A node that is down, failing or not responding cannot. A draining node can, because Slurm
// lets its jobs end normally.
[[nodiscard]] std::vector<std::string> survivors(const std::vector<std::string>& nodes,
                                                 const slurm::JobStatus& job,
                                                 const std::vector<slurm::NodeStatus>& statuses);

// Asks Slurm for the present state of the job and the nodes, and returns the survivors.
[[nodiscard]] base::Result<std::vector<std::string>> ask_for_survivors(
    const slurm::Client& client, const std::string& job_id, const std::vector<std::string>& nodes);

// Returns the step with no more processes than `nodes` nodes can run. The number of processes per
// node stays as it was.
[[nodiscard]] plan::Step shrunk(const plan::Step& step, std::size_t nodes);

// Starts the ranks of an elastic job again when they fail. Does nothing for any other job.
class ElasticStarts {
  public:
    ElasticStarts(Context& context, Journal& journal) : context_(context), journal_(journal) {}

    // Starts a step on another node of the job, unless that step is still running. The step has the
    // job queued again if the job's first node is lost. The call is cheap while the step runs.
    void watch_first_node();
    // Returns true if the ranks are to start once more. The place and the record are then up to
    // date.
    [[nodiscard]] bool start_again(const record::Failure& failure);

  private:
    Context& context_;
    Journal& journal_;
    std::optional<BackgroundStep> watch_;
};

}  // namespace batchai::run
