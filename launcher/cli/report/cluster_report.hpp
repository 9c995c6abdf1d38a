// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <vector>

#include "base/error.hpp"
#include "cli/output/value.hpp"
#include "job/model.hpp"
#include "job/schema/storage_account.hpp"
#include "site/site.hpp"
#include "slurm/client.hpp"
#include "store/records.hpp"
#include "store/store.hpp"

namespace batchai::cli {

// The objects that `cluster show` and `list` print; node states come from one query of Slurm's
// nodes per partition and one of all jobs of the workspace. When Slurm does not answer, the counts
// are zero and `errors` of the cluster says so.
[[nodiscard]] base::Result<Value::Array> cluster_values(
    const store::Store& store, const site::Site& site, const slurm::Client& client,
    const std::vector<store::Cluster>& clusters);

// The volumes that all jobs of a cluster have. Records keep them as cluster.json has them; no key
// is kept: that of an account comes with the job, or from the site.

// Fails when it is not what a job's mountVolumes could be, or holds a key; names the faults.
[[nodiscard]] base::Result<void> check_cluster_volumes(const Value& volumes);

// The record's volumes, with the placeholders of the account replaced.
[[nodiscard]] base::Result<job::MountVolumes> cluster_volumes(
    const store::Cluster& cluster, const std::optional<job::StorageAccount>& account);

}  // namespace batchai::cli
