// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/node_view.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace batchai::slurm {

namespace {

bool is_moving(const NodeStatus& node) {
    return node.has(NodeFlag::powering_up) || node.has(NodeFlag::powering_down) ||
           node.has(NodeFlag::power_down) || node.has(NodeFlag::reboot_issued) ||
           node.has(NodeFlag::reboot_requested);
}

bool is_unusable(const NodeStatus& node) {
    return node.state == NodeBaseState::down || node.state == NodeBaseState::unknown ||
           node.state == NodeBaseState::error || node.state == NodeBaseState::future ||
           node.has(NodeFlag::drain) || node.has(NodeFlag::fail) ||
           node.has(NodeFlag::not_responding) || node.has(NodeFlag::invalid_registration) ||
           node.has(NodeFlag::maintenance);
}

std::map<std::string, NodeUse> uses_of(const std::vector<ClusterJob>& jobs) {
    std::map<std::string, NodeUse> uses;
    for (const ClusterJob& job : jobs) {
        for (const std::string& name : job.nodes) {
            NodeUse& use = uses[name];
            // A node with ranks of one job is running, even if another job is still preparing on
            // it.
            if (use != NodeUse::running)
                use = job.preparing ? NodeUse::preparing : NodeUse::running;
        }
    }
    return uses;
}

void count(NodeState state, NodeStateCounts& counts) {
    switch (state) {
        case NodeState::idle:
            ++counts.idle;
            break;
        case NodeState::running:
            ++counts.running;
            break;
        case NodeState::preparing:
            ++counts.preparing;
            break;
        case NodeState::leaving:
            ++counts.leaving;
            break;
        case NodeState::unusable:
            ++counts.unusable;
            break;
        case NodeState::off:
        case NodeState::foreign:
            break;
    }
}

}  // namespace

std::string_view to_string(NodeState state) {
    constexpr std::array<std::string_view, 7> names{"idle",     "running", "preparing", "leaving",
                                                    "unusable", "off",     "foreign"};
    return names.at(static_cast<std::size_t>(state));
}

std::string_view to_string(AllocationState state) {
    return state == AllocationState::resizing ? "resizing" : "steady";
}

NodeState node_state(const NodeStatus& node, NodeUse use) {
    if (node.has(NodeFlag::powering_down) || node.has(NodeFlag::power_down))
        return NodeState::leaving;
    // A node that boots does not respond yet, which is not a fault.
    if (node.has(NodeFlag::powering_up) || node.has(NodeFlag::reboot_issued) ||
        node.has(NodeFlag::reboot_requested))
        return NodeState::preparing;
    if (node.has(NodeFlag::powered_down) && node.state == NodeBaseState::idle)
        return NodeState::off;
    if (is_unusable(node)) return NodeState::unusable;
    if (node.has(NodeFlag::completing)) return NodeState::leaving;
    if (use == NodeUse::preparing) return NodeState::preparing;
    if (use == NodeUse::running) return NodeState::running;
    if (node.state == NodeBaseState::idle) return NodeState::idle;
    return NodeState::foreign;
}

ClusterView cluster_view(const std::vector<NodeStatus>& nodes, const std::vector<ClusterJob>& jobs,
                         int target) {
    const auto uses = uses_of(jobs);
    struct Candidate {
        const NodeStatus* node;
        NodeState state;
        int rank;  // 0: belongs to the cluster in any case; else lower is better
    };
    std::vector<Candidate> candidates;
    for (const NodeStatus& node : nodes) {
        const auto used = uses.find(node.name);
        const NodeState state = node_state(node, used == uses.end() ? NodeUse::none : used->second);
        if (state == NodeState::off || state == NodeState::foreign) continue;
        const bool ours = used != uses.end();
        const int rank = ours                           ? 0
                         : state == NodeState::idle     ? 1
                         : state == NodeState::unusable ? 3
                                                        : 2;
        candidates.push_back({&node, state, rank});
    }
    std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
        return a.rank != b.rank ? a.rank < b.rank : a.node->name < b.node->name;
    });

    ClusterView view;
    int with_our_jobs = 0;
    bool moving = false;
    for (const Candidate& candidate : candidates) {
        const bool room = static_cast<int>(view.nodes.size()) < target;
        if (candidate.rank > 0 && !room) continue;
        if (candidate.rank == 0) ++with_our_jobs;
        moving = moving || is_moving(*candidate.node);
        count(candidate.state, view.counts);
        view.nodes.push_back({candidate.node->name, candidate.state});
    }
    std::sort(view.nodes.begin(), view.nodes.end(),
              [](const ClusterNode& a, const ClusterNode& b) { return a.name < b.name; });
    view.current_node_count = static_cast<int>(view.nodes.size()) - view.counts.unusable;
    if (moving || with_our_jobs > target) view.allocation_state = AllocationState::resizing;
    return view;
}

int autoscale_target(int minimum, int maximum, int wanted_by_jobs) {
    return std::clamp(wanted_by_jobs, minimum, std::max(minimum, maximum));
}

}  // namespace batchai::slurm
