// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <set>
#include <string>

#include "base/error.hpp"
#include "run/again/host_updates.hpp"
#include "run/again/hosts.hpp"
#include "run/context.hpp"
#include "run/phases/phase.hpp"
#include "run/srun/step.hpp"

// What an elastic job does when some of its nodes are lost, are given back to Slurm, or return.
namespace batchai::run {

// Starts the ranks of an elastic job again when they fail or when the nodes of the job change. Does
// nothing for any other job.
class ElasticStarts {
  public:
    // `context` gets a pointer to this object's HostUpdates until the object is destroyed.
    ElasticStarts(Context& context, Journal& journal);
    ~ElasticStarts();
    ElasticStarts(const ElasticStarts&) = delete;
    ElasticStarts& operator=(const ElasticStarts&) = delete;

    // Starts a step on another node of the job, unless that step is still running. The step has the
    // job queued again if the job's first node is lost. The call is cheap while the step runs.
    void watch_first_node();
    // Returns true if the ranks are to start once more. The place and the record are then up to
    // date.
    [[nodiscard]] bool start_again(const Ending& ending);

  private:
    // Returns where the ranks start next. Has returned to Slurm the nodes that the job gives back.
    [[nodiscard]] Nodes settle(const SlurmsView& view);
    [[nodiscard]] base::Result<void> give_back(const Nodes& nodes, const SlurmsView& view);
    void note_bad_gpu(const record::Failure& failure);

    Context& context_;
    Journal& journal_;
    std::optional<HostUpdates> updates_;
    std::optional<BackgroundStep> watch_;
    std::string node_of_watch_;
    int failures_ = 0;                // restarts that count
    std::set<std::string> suspects_;  // nodes whose GPUs could not be used once
};

}  // namespace batchai::run
