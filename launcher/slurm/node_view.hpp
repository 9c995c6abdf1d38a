// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <optional>
#include <set>
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

// Returns whether Slurm has taken the node out because it did not start in time.
[[nodiscard]] bool did_not_start(const NodeStatus& node);

// Returns whether the node is drained because it was to power down when its jobs had ended. A
// slurmctld of 22.05 that starts again forgets that, and the node would stay drained.
[[nodiscard]] bool was_to_power_down(const NodeStatus& node);

enum class NodeUse { none, preparing, running };  // by jobs of this cluster

// Returns the use of each node that one of the jobs has.
[[nodiscard]] std::map<std::string, NodeUse> uses_of(const std::vector<ClusterJob>& jobs);

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
    std::string reason{};  // of an unusable node, in Slurm's words
    bool did_not_start = false;

    bool operator==(const ClusterNode&) const = default;
};

// The nodes of a cluster that powers its nodes up and down.
struct Assignment {
    std::set<std::string, std::less<>> nodes;
    std::set<std::string, std::less<>> leaving;  // had to go when the cluster became smaller
    std::set<std::string, std::less<>> others;   // nodes of other clusters
};

struct ClusterView {
    std::vector<ClusterNode> nodes;  // those that are counted, sorted by name
    NodeStateCounts counts;
    int current_node_count = 0;  // nodes within the target that are not unusable
    // Nodes of the assignment that cannot be used, even if others are counted in their place.
    std::vector<ClusterNode> unusable;
    AllocationState allocation_state = AllocationState::steady;
};

// Chooses the cluster's nodes from those of the partition, and derives their states. Nodes that run
// jobs of the cluster come first. If they are fewer than the target, the nodes of the assignment
// are added, then other idle nodes, then nodes that are powering up or down, then unusable ones.
// Nodes that are off or busy with others' jobs are never counted, so the number may stay below the
// target. It never exceeds the target, except that nodes which still run jobs of the cluster beyond
// the target, or power down because the cluster became smaller, are counted as leaving. The cluster
// is resizing as long as there are such nodes, or a counted node is powering up or down or
// rebooting.
[[nodiscard]] ClusterView cluster_view(const std::vector<NodeStatus>& nodes,
                                       const std::vector<ClusterJob>& jobs, int target,
                                       const std::optional<Assignment>& assignment = {});

// Returns the target of automatic scaling: the number of nodes that running and queued jobs ask
// for, within the bounds.
[[nodiscard]] int autoscale_target(int minimum, int maximum, int wanted_by_jobs);

}  // namespace batchai::slurm
