// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "slurm/status.hpp"

// Derives the states of a cluster and its nodes in Batch AI's terms. Pure.
namespace batchai::slurm {

// `off` (powered down) and `foreign` (busy with others' jobs) are not states of Batch AI. Nodes in
// these states do not belong to the cluster at the moment.
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
    std::vector<ClusterNode> nodes;  // sorted by name
    NodeStateCounts counts;
    int current_node_count = 0;  // nodes of the cluster that are not unusable
    AllocationState allocation_state = AllocationState::steady;
};

// Chooses the cluster's nodes from those of the partition, and derives their states. All nodes that
// run jobs of the cluster belong to it. If they are fewer than the target, idle nodes are added,
// then nodes that are powering up or down, then unusable ones. Nodes that are off or busy with
// others' jobs are never counted, so the number may stay below the target. The cluster is resizing
// if a counted node is powering up or down or rebooting, or if more nodes than the target still run
// its jobs.
[[nodiscard]] ClusterView cluster_view(const std::vector<NodeStatus>& nodes,
                                       const std::vector<ClusterJob>& jobs, int target);

// Returns the target of automatic scaling: the number of nodes that running and queued jobs ask
// for, within the bounds.
[[nodiscard]] int autoscale_target(int minimum, int maximum, int wanted_by_jobs);

}  // namespace batchai::slurm
