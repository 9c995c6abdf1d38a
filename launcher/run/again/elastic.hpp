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

// Starts the ranks of an elastic job again when they fail. Does nothing for any other job.
class ElasticStarts {
  public:
    ElasticStarts(Context& context, Journal& journal) : context_(context), journal_(journal) {}

    // Has another node see to it that the job of a lost first node is queued again. Cheap to call
    // while that node's step runs; starts it anew if it has ended.
    void watch_first_node();
    // True, with the place and the record up to date, when the ranks are to start once more.
    [[nodiscard]] bool start_again(const record::Failure& failure);

  private:
    Context& context_;
    Journal& journal_;
    std::optional<BackgroundStep> watch_;
};

}  // namespace batchai::run
