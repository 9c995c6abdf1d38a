// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "plan/plan.hpp"
#include "record/elastic_files.hpp"
#include "slurm/client.hpp"
#include "slurm/status.hpp"

// On which of its nodes a job runs its ranks. Everything here is pure but for the two functions
// that ask Slurm.
namespace batchai::run {

// The code and message of the record when the ranks start again because the nodes have changed.
inline constexpr const char* hosts_updated = "HostsUpdated";
inline constexpr const char* hosts_updated_message = "The nodes of the job have changed";

using Nodes = std::vector<std::string>;

[[nodiscard]] bool contains(const Nodes& nodes, const std::string& name);
// Returns the nodes that are not among `others`, in their order.
[[nodiscard]] Nodes without(const Nodes& nodes, const Nodes& others);

// What Slurm says about a job and the nodes of the cluster.
struct SlurmsView {
    slurm::JobStatus job;
    std::vector<slurm::NodeStatus> nodes;
};

// Asks about the job and about `nodes`.
[[nodiscard]] base::Result<SlurmsView> ask_slurm(const slurm::Client& client,
                                                 const std::string& job_id, const Nodes& nodes);

// Returns false for a node that is down, failing or not responding.
[[nodiscard]] bool starts_tasks(const slurm::NodeStatus& node);

// Asks Slurm which of `nodes` cannot start tasks. Returns none if Slurm does not answer.
[[nodiscard]] Nodes nodes_that_start_no_tasks(const slurm::Client& client, const Nodes& nodes);

// Returns the nodes among `nodes` that cannot start tasks, whether or not they are the job's.
[[nodiscard]] Nodes lost(const Nodes& nodes, const SlurmsView& view);

// Returns the nodes among `nodes`, in the same order, that still belong to the job and can start
// tasks. A node that is down, failing or not responding cannot. A draining node can, because Slurm
// lets its jobs end normally.
[[nodiscard]] Nodes survivors(const Nodes& nodes, const SlurmsView& view);

// Returns the nodes among `nodes` that Slurm has taken from the job although they can start tasks:
// somebody has made the job smaller with scontrol.
[[nodiscard]] Nodes taken(const Nodes& nodes, const SlurmsView& view);

// Returns whether Slurm drains one of the nodes.
[[nodiscard]] bool has_drained(const Nodes& nodes, const SlurmsView& view);

// Returns the step with no more processes than `nodes` nodes can run. The number of processes per
// node stays as it was.
[[nodiscard]] plan::Step shrunk(const plan::Step& step, std::size_t nodes);

// What the job itself knows about its nodes, and wants of them.
struct Hosts {
    Nodes granted;                // at the start of the attempt; the first one is never given back
    Nodes place;                  // where the ranks run
    std::set<std::string> unfit;  // nodes that have failed, or that were cleaned up
    std::optional<int> wanted;    // how many nodes the user wants to keep
    int least = 1;                // with fewer nodes the job fails
    int most = 0;                 // the ranks run on no more nodes; 0: on all
    bool leaves_drained = false;  // the job leaves nodes that are drained
};

struct Decision {
    Nodes nodes;      // where the ranks start next
    Nodes spares;     // nodes that wait to take the place of one of these
    Nodes give_back;  // nodes that the job returns to Slurm before that
};

// Divides `fit` nodes into those where the ranks start next and spare ones. Nodes where the ranks
// run already are preferred, because they have what the ranks need. Both lists are in the order of
// `fit`.
[[nodiscard]] Decision divide(const Hosts& hosts, const Nodes& fit);

// Returns where the ranks start next. A drained node is kept if fewer nodes than `least` would be
// left. A job that the user wants to be smaller gives back no more nodes than it has to, and first
// those that it cannot use. Otherwise such nodes are in neither list.
[[nodiscard]] Decision decide(const Hosts& hosts, const SlurmsView& view);

// A difference between where ranks run and where they would start next.
struct Difference {
    Nodes removed;
    Nodes added;

    [[nodiscard]] bool empty() const { return removed.empty() && added.empty(); }
    [[nodiscard]] record::HostsChange change() const;
    // Returns "h4 leaves; h2, h3 are back".
    [[nodiscard]] std::string text() const;
};

// Returns the reasons for which running ranks should start again. Nodes that do not answer are not
// among them, because only Slurm can say whether they are lost. Nodes that the user wants to give
// back are, even if no ranks run there. There is no reason if fewer nodes than `least` would be
// left.
[[nodiscard]] Difference due_for(const Hosts& hosts, const SlurmsView& view);

}  // namespace batchai::run
