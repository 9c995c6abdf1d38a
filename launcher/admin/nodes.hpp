// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "admin/findings_view.hpp"
#include "base/error.hpp"
#include "site/site.hpp"
#include "slurm/client.hpp"
#include "slurm/status.hpp"

namespace batchai::admin {

// Nodes that share a partition, and so can be asked in one allocation.
struct NodeGroup {
    std::string partition;
    std::vector<std::string> nodes;
};

struct NodeChoice {
    std::vector<NodeGroup> groups;
    std::vector<Finding> left_out;  // one for each wanted node that cannot be asked now, with why
};

// Chooses from the nodes that Slurm has those that can start a task now. If `wanted` is empty, all
// nodes are wanted. A node that Slurm does not have is an error.
[[nodiscard]] base::Result<NodeChoice> choose_nodes(const std::vector<slurm::NodeStatus>& nodes,
                                                    const std::vector<std::string>& wanted,
                                                    const std::string& preferred_partition);

// Runs `batchai admin check --this-host` on the nodes as the user who calls this, in one short
// allocation for each group, and compares what they report with `ours`. A node that does not report
// has a finding that says what srun or the node said. SIGINT, SIGTERM and SIGHUP end the
// allocation. The reports are files in a new directory below the user's records, which is removed
// again. `progress` is told what happens.
[[nodiscard]] base::Result<std::vector<Finding>> check_nodes(
    const slurm::Client& client, const site::Site& site, const NodeChoice& choice,
    const HostFindings& ours, const std::function<void(std::string_view)>& progress);

}  // namespace batchai::admin
