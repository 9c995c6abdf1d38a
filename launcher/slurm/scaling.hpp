// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "slurm/client.hpp"
#include "slurm/node_view.hpp"
#include "slurm/status.hpp"

// How the nodes of a cluster follow its target with Slurm's own power saving.
namespace batchai::slurm {

// Whether the caller can power nodes up and down.
struct PowerRights {
    bool allowed = false;
    std::string reason;  // why not: a clause such as "Slurm has no power saving here"
    // Slurm's settings, as `scontrol show config` has them.
    std::string suspend_time;  // after this time Slurm powers an idle node down: "600 sec"
    std::chrono::seconds suspend_timeout{0};
};

// Derives the rights from Slurm's configuration. Slurm lets root, its own user and administrators
// of its accounting change the power state of nodes. `is_administrator` is only asked if the rest
// does not decide and the site keeps accounts.
[[nodiscard]] base::Result<PowerRights> power_rights(
    const Configuration& configuration, unsigned user_id,
    const std::function<base::Result<bool>()>& is_administrator);

// Returns whether Slurm has refused what it was asked because the caller may not do it.
[[nodiscard]] bool denies_permission(const base::Error& error);

// Asks Slurm for the rights of the caller, whose name is `user`.
[[nodiscard]] base::Result<PowerRights> power_rights(const Client& client, const std::string& user);

struct ScalingInput {
    std::vector<NodeStatus> nodes;               // those that the cluster's VM size chooses
    std::vector<ClusterJob> jobs;                // of this cluster
    std::set<std::string, std::less<>> own;      // nodes that the cluster has had until now
    std::set<std::string, std::less<>> leaving;  // nodes that had to leave the cluster
    std::set<std::string, std::less<>> others;   // nodes of other clusters
};

// What is to be done so that the cluster has its target of nodes. All lists are sorted by name.
struct PowerPlan {
    std::vector<std::string> keep;     // the nodes of the cluster from now on
    std::vector<std::string> up;       // of these, the ones to power up
    std::vector<std::string> usable;   // of these, the ones that must be told to take jobs again
    std::vector<std::string> waiting;  // of these, the ones that must first finish powering down
    std::vector<std::string> down;     // to power down as soon as no job runs on them

    bool operator==(const PowerPlan&) const = default;
};

// Chooses the nodes. Nodes with jobs of the cluster are kept first, then idle ones, then those that
// are off. The nodes that are powered down are only such as the cluster has had, or as run its
// jobs; they are never nodes of another cluster, and never nodes on which only others' jobs run.
// Nodes that an administrator has drained, or that are down for another reason than a failed start,
// are left alone.
[[nodiscard]] PowerPlan plan_power(const ScalingInput& input, int target);

}  // namespace batchai::slurm
