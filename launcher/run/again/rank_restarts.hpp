// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <functional>
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

// What RankRestarts needs of Slurm. Tests replace it.
struct SlurmCalls {
    // `deadline` is for each of the commands that it takes.
    std::function<base::Result<SlurmsView>(std::chrono::seconds deadline)> look;
    std::function<base::Result<void>(const Nodes&)> keep_nodes;
    std::function<void(std::chrono::seconds)> pause;
};

[[nodiscard]] SlurmCalls slurm_calls(const slurm::ThisJob& granted);

// Starts the ranks of an elastic job again when they fail or when the nodes of the job change. Does
// nothing for any other job.
class RankRestarts {
  public:
    // `context` gets a pointer to this object's HostUpdates until the object is destroyed.
    RankRestarts(Context& context, Journal& journal, SlurmCalls slurm);
    ~RankRestarts();
    RankRestarts(const RankRestarts&) = delete;
    RankRestarts& operator=(const RankRestarts&) = delete;

    // Starts a step on another node of the job, unless that step is still running. The step has the
    // job queued again if the job's first node is lost. The call is cheap while the step runs.
    void watch_first_node();
    // Returns true if the ranks are to start once more. The place and the record are then up to
    // date. If the job is told to end meanwhile, `ending` says so.
    [[nodiscard]] bool start_again(Ending& ending);

  private:
    // Asks Slurm about the nodes. Ranks that have ended on purpose are not lost because the
    // controller is silent or a node does not answer for a moment, so the question is then repeated
    // for some minutes.
    [[nodiscard]] base::Result<SlurmsView> look(bool patient);
    // Returns where the ranks start next. Has returned to Slurm the nodes that the job gives back.
    [[nodiscard]] Nodes settle(const SlurmsView& view);
    void clean_up(const Nodes& nodes);
    // Returns whether the job was told to end.
    [[nodiscard]] bool is_stopped();
    void note_bad_gpu(const record::Failure& failure);

    Context& context_;
    Journal& journal_;
    SlurmCalls slurm_;
    std::optional<int> stopped_by_;
    Hosts hosts_;
    std::optional<HostUpdates> updates_;
    std::optional<BackgroundStep> watch_;
    std::string node_of_watch_;
    int failures_ = 0;                // restarts that count
    std::set<std::string> suspects_;  // nodes whose GPUs could not be used once
};

}  // namespace batchai::run
