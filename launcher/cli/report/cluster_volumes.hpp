// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>

#include "base/error.hpp"
#include "cli/output/value.hpp"
#include "job/model.hpp"
#include "job/schema/storage_account.hpp"
#include "store/records.hpp"

// The volumes that all jobs of a cluster have. Records keep them as cluster.json has them; no key
// is kept: that of an account comes with the job, or from the site.
namespace batchai::cli {

// Fails when it is not what a job's mountVolumes could be, or holds a key; names the faults.
[[nodiscard]] base::Result<void> check_cluster_volumes(const Value& volumes);

// The record's volumes, with the placeholders of the account replaced.
[[nodiscard]] base::Result<job::MountVolumes> cluster_volumes(
    const store::Cluster& cluster, const std::optional<job::StorageAccount>& account);

}  // namespace batchai::cli
