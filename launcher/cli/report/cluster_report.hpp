// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <vector>

#include "base/error.hpp"
#include "cli/output/value.hpp"
#include "site/site.hpp"
#include "slurm/client.hpp"
#include "store/store.hpp"

namespace batchai::cli {

// The objects that `cluster show` and `list` print; node states come from one query of Slurm's
// nodes per partition and one of all jobs of the workspace. When Slurm does not answer, the counts
// are zero and `errors` of the cluster says so.
[[nodiscard]] base::Result<Value::Array> cluster_values(
    const store::Store& store, const site::Site& site, const slurm::Client& client,
    const std::vector<store::Cluster>& clusters);

}  // namespace batchai::cli
