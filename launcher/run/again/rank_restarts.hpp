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
#include "run/again/queue_again.hpp"
#include "run/context.hpp"
#include "run/phases/phase.hpp"
#include "run/srun/step.hpp"

// Whether the ranks start again in the job's allocation when they have ended: because a spare node
// takes the place of one that is lost or cannot be used, because the job is elastic, or because its
// "retry" says so. Otherwise queue_again.hpp decides whether the job goes back into the queue.
namespace batchai::run {

// What RankRestarts needs of Slurm. Tests replace it.
struct SlurmCalls {
    // `deadline` is for each of the commands that it takes.
    std::function<base::Result<SlurmsView>(std::chrono::seconds deadline)> look;
    std::function<base::Result<void>(const Nodes&)> keep_nodes;
    std::function<void(std::chrono::milliseconds)> pause;
    AddressesOf addresses_of = addresses_by_name;
};

[[nodiscard]] SlurmCalls slurm_calls(const slurm::ThisJob& granted);

// Does nothing for a job that has no spare nodes, is not elastic and has no "retry".
class RankRestarts {
  public:
    // `context` refers to this object until the object is destroyed.
    RankRestarts(Context& context, Journal& journal, QueueAgain& again, SlurmCalls slurm);
    ~RankRestarts();
    RankRestarts(const RankRestarts&) = delete;
    RankRestarts& operator=(const RankRestarts&) = delete;

    // Starts a step on another node of the job, unless that step is still running. The step has the
    // job queued again if the job's first node is lost. The call is cheap while the step runs.
    void watch_first_node();
    // Returns true if spare nodes take the place of those that the end of a phase before the first
    // ranks names. The phase is then run again, and nothing has been started again.
    [[nodiscard]] std::string why_not_without(const std::string& node) const;
    [[nodiscard]] bool leave_out(const Ending& ending);
    // Returns true if the ranks are to start once more. The place and the record are then up to
    // date. If the job is told to end meanwhile, `ending` says so. If ranks that were to start once
    // more could not, `ending` becomes the one for which they were.
    [[nodiscard]] bool start_again(Ending& ending);

  private:
    // What the ranks start again for, and which limit that counts for.
    struct Reason {
        enum class Limit { none, of_elastic, of_retry };
        std::string text;
        Limit limit = Limit::none;
        bool of_hosts = false;  // Slurm or the user has changed the nodes of an elastic job
    };
    [[nodiscard]] bool has_spares() const { return context_.plan.allocation.spare_nodes > 0; }
    [[nodiscard]] bool is_elastic() const { return context_.elastic.has_value(); }
    [[nodiscard]] bool tries_again(Ending& ending);
    // Returns whether this end is one after which this job may start its ranks again.
    [[nodiscard]] bool is_open(const Ending& ending) const;
    [[nodiscard]] bool has_lost_nodes(const SlurmsView& view) const;
    // Asks Slurm about the nodes. Waits a little for Slurm to hear of a lost node, unless the end
    // names the nodes itself. Ranks that have ended on purpose are not lost because the controller
    // is silent or a node does not answer for a moment, so the question is then repeated for some
    // minutes.
    [[nodiscard]] base::Result<SlurmsView> look(const Ending& ending);
    // Notes which nodes the end says cannot be used. Returns whether it was only a suspicion.
    [[nodiscard]] bool note_bad_nodes(const Ending& ending);
    // Return nothing if the ranks do not start again for such a reason. reason() has said why,
    // unless that needs no words.
    [[nodiscard]] std::optional<Reason> reason(const Ending& ending, const SlurmsView* view,
                                               bool suspicion);
    [[nodiscard]] std::optional<Reason> elastic_reason(const Ending& ending,
                                                       const SlurmsView* view) const;
    [[nodiscard]] std::optional<Reason> reason_of_spares(const SlurmsView& view,
                                                         bool suspicion) const;
    // Counts the restart. Returns ", restart 1 of 3", or nothing if the limit is reached.
    [[nodiscard]] std::optional<std::string> counted(const Reason& reason, const Ending& ending);
    // Returns where the ranks start next. Has returned to Slurm the nodes that the job gives back.
    [[nodiscard]] Decision settle(const SlurmsView& view);
    [[nodiscard]] bool leave_out(const Nodes& bad);
    void move_to(Decision next, int restarts);
    // Ranks do not start on the node again in this allocation.
    void leave(const std::string& node);
    void clean_up(const Nodes& nodes);
    // Returns whether the job was told to end.
    [[nodiscard]] bool is_stopped();
    void refuse(const std::string& why) const;

    Context& context_;
    Journal& journal_;
    QueueAgain& again_;
    SlurmCalls slurm_;
    std::optional<int> stopped_by_;
    Hosts hosts_;
    std::optional<HostUpdates> updates_;  // of an elastic job
    std::optional<BackgroundStep> watch_;
    std::string node_of_watch_;
    // For which end the ranks of a job that is not elastic were started again, until they have run.
    struct Before {
        Ending ending;
        bool is_counted = false;  // as a retry
    };
    std::optional<Before> before_;
    bool has_retried_ = false;
    int failures_ = 0;                // restarts that count for an elastic job
    std::set<std::string> suspects_;  // nodes whose GPUs could not be used once
};

}  // namespace batchai::run
