// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "slurm/status.hpp"

// What Batch AI would call the states of a cluster and its nodes. Pure.
namespace batchai::slurm {

// `off` and `foreign` are not Batch AI's: such nodes are no nodes of the cluster now (powered down;
// busy with others' jobs).
enum class NodeState { idle, running, preparing, leaving, unusable, off, foreign };

[[nodiscard]] std::string_view to_string(NodeState state);

// A job of this cluster that has nodes now.
struct ClusterJob {
    std::vector<std::string> nodes;
    bool preparing = false;  // its ranks have not started yet
};

enum class NodeUse { none, preparing, running };  // by jobs of this cluster

[[nodiscard]] NodeState node_state(const NodeStatus& node, NodeUse use);

enum class AllocationState { resizing, steady };

[[nodiscard]] std::string_view to_string(AllocationState state);

struct NodeStateCounts {
    int idle = 0;
    int running = 0;
    int preparing = 0;
    int leaving = 0;
    int unusable = 0;

    bool operator==(const NodeStateCounts&) const = default;
};

struct ClusterNode {
    std::string name;
    NodeState state = NodeState::idle;

    bool operator==(const ClusterNode&) const = default;
};

struct ClusterView {
    std::vector<ClusterNode> nodes;  // by name
    NodeStateCounts counts;
    int current_node_count = 0;  // all but the unusable ones
    AllocationState allocation_state = AllocationState::steady;
};

// Which of the partition's nodes are the cluster's, and how they are. All that run the cluster's
// jobs are; up to the target are joined by idle ones, then those on their way up or down, then
// unusable ones. Nodes that are off or busy with others' jobs are never counted, so the number may
// stay below the target. Resizing: a counted node is powering up or down or rebooting, or
// more nodes than the target still run jobs.
[[nodiscard]] ClusterView cluster_view(const std::vector<NodeStatus>& nodes,
                                       const std::vector<ClusterJob>& jobs, int target);

// Where automatic scaling stands: the nodes that running and queued jobs ask for, within the
// bounds.
[[nodiscard]] int autoscale_target(int minimum, int maximum, int wanted_by_jobs);

}  // namespace batchai::slurm
