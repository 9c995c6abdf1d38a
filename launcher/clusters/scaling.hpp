// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "site/site.hpp"
#include "slurm/client.hpp"
#include "slurm/scaling.hpp"
#include "status/job_view.hpp"
#include "store/records.hpp"
#include "store/store.hpp"

// How Slurm's nodes follow the target of a cluster.
namespace batchai::clusters {

// What Slurm says before a cluster follows a target.
struct ScalingView {
    std::vector<status::JobView> job_views;  // of the jobs of the cluster's workspace
    slurm::PowerRights rights;
    slurm::ScalingInput input;  // empty if the caller may not power nodes
};

// Asks Slurm, and changes nothing. An accounting that does not answer is an error only for a
// cluster that has nodes; for another one it counts as a denial.
[[nodiscard]] base::Result<ScalingView> look_at_slurm(const store::Store& store,
                                                      const site::Site& site,
                                                      const slurm::Client& client,
                                                      const store::Cluster& cluster);

struct Rescaled {
    store::Cluster cluster;            // the record as it is now
    std::vector<std::string> remarks;  // sentences for the user
    // Nodes of the cluster that must finish powering down before they can be powered up.
    std::vector<std::string> waiting;
    std::chrono::seconds suspend_timeout{0};  // how long that takes at most
};

// Makes Slurm's nodes follow the target that the cluster's record has. Jobs of the cluster that
// wait and ask for more nodes than the target are held, and those that were held for this reason
// and are no longer too large are released. If the caller may power nodes up and down, nodes are
// powered up to the target and down below it; nodes with jobs power down when the jobs have ended.
// Otherwise the record says that the target is a cap. With automatic scaling, the number of nodes
// is at least `initial`, within the bounds.
[[nodiscard]] base::Result<Rescaled> follow_target(const store::Store& store,
                                                   const slurm::Client& client,
                                                   const store::ClusterKey& key,
                                                   const ScalingView& view, int initial = 0);

// Powers down the nodes of a cluster that is being deleted. Returns sentences for the user.
[[nodiscard]] base::Result<std::vector<std::string>> power_down_all(const store::Store& store,
                                                                    const site::Site& site,
                                                                    const slurm::Client& client,
                                                                    const store::Cluster& cluster);

// Waits until the nodes that must finish powering down are off, and powers them up. Returns at once
// if there are none. Slurm does not power a node up before.
[[nodiscard]] base::Result<void> power_up_late_nodes(const site::Site& site,
                                                     const slurm::Client& client,
                                                     const Rescaled& rescaled);

}  // namespace batchai::clusters
