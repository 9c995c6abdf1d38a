// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cli/output/output.hpp"
#include "job/model.hpp"
#include "job/schema/storage_account.hpp"
#include "plan/make.hpp"
#include "site/site.hpp"
#include "slurm/client.hpp"
#include "slurm/node_view.hpp"
#include "status/job_view.hpp"
#include "store/records.hpp"
#include "store/store.hpp"

// What people see of clusters, their nodes and their jobs. The other parts make and change
// clusters:
//
//   file.hpp          reads a cluster.json, and the options that scale a cluster
//   volume_flags.hpp  the volumes that a command line names, for clusters and jobs
//   auto_storage.hpp  makes the storage of --use-auto-storage
//   scaling.hpp       has Slurm's nodes follow the target of a cluster
namespace batchai::clusters {

// Returns the nodes that the VM size chooses.
[[nodiscard]] slurm::NodeFilter node_filter(const site::Site& site, const std::string& vm_size);

struct ClusterLoad {
    std::vector<slurm::ClusterJob> jobs;  // those that have nodes
    int wanted_nodes = 0;                 // of running and queued jobs
};

[[nodiscard]] ClusterLoad load_of(const store::ClusterKey& cluster,
                                  const std::vector<status::JobView>& job_views);

// Returns the number of nodes that the cluster should have.
[[nodiscard]] int target_of(const store::Cluster& cluster, int wanted_nodes);

// Returns the greatest number of nodes that a job of the cluster may ask for.
[[nodiscard]] int node_limit(const store::Cluster& cluster);

// Returns the nodes that the user's other clusters have with power saving.
[[nodiscard]] std::set<std::string, std::less<>> nodes_of_others(const store::Store& store,
                                                                 const store::ClusterKey& key);

// Returns the jobs of all workspaces that were sent to a cluster of this one. Of a job whose record
// cannot be read nobody knows where it was sent: it is left out, with a warning.
[[nodiscard]] base::Result<std::vector<store::Job>> jobs_on_clusters_of(
    const store::Store& store, const store::WorkspaceKey& key);

// Returns the objects that `cluster show` and `cluster list` print. All clusters must be in one
// workspace. Node states come from one query of Slurm's nodes per partition and constraint, and one
// query of all jobs of these clusters. If Slurm does not answer, the node counts are zero and the
// cluster's `errors` says so.
[[nodiscard]] base::Result<base::Value::Array> cluster_values(
    const store::Store& store, const site::Site& site, const slurm::Client& client,
    const std::vector<store::Cluster>& clusters);

// Returns the cluster's nodes and their states. Fails if Slurm does not answer.
[[nodiscard]] base::Result<slurm::ClusterView> nodes_of_cluster(const store::Store& store,
                                                                const site::Site& site,
                                                                const slurm::Client& client,
                                                                const store::Cluster& cluster);

// The volumes that all jobs of a cluster have. Records store them in the form of cluster.json, but
// without account keys: a key comes with the job or from the site.

// Checks that the value is valid as a job's mountVolumes and holds no account key. The error names
// the first fault.
[[nodiscard]] base::Result<void> check_cluster_volumes(const base::Value& volumes);

// Returns the setup task of the cluster's record, if it has one.
[[nodiscard]] std::optional<plan::SetupTask> setup_task_of(const store::Cluster& cluster);

// Returns the volumes of the cluster's record, with the account's placeholders replaced.
[[nodiscard]] base::Result<job::MountVolumes> cluster_volumes(
    const store::Cluster& cluster, const std::optional<job::StorageAccount>& account);

}  // namespace batchai::clusters
