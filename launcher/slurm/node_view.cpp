// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/node_view.hpp"

#include <algorithm>
#include <array>
#include <iterator>
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

bool did_not_start(const NodeStatus& node) {
    return node.state == NodeBaseState::down && node.reason.starts_with("ResumeTimeout reached");
}

bool was_to_power_down(const NodeStatus& node) {
    return node.has(NodeFlag::drain) && node.reason.starts_with("POWER_DOWN_ASAP") &&
           !node.has(NodeFlag::power_down) && !node.has(NodeFlag::powering_down) &&
           !node.has(NodeFlag::powering_up);
}

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
    if (was_to_power_down(node)) return NodeState::leaving;
    if (is_unusable(node)) return NodeState::unusable;
    if (node.has(NodeFlag::completing)) return NodeState::leaving;
    if (use == NodeUse::preparing) return NodeState::preparing;
    if (use == NodeUse::running) return NodeState::running;
    if (node.state == NodeBaseState::idle && !node.has(NodeFlag::blocked)) return NodeState::idle;
    return NodeState::foreign;
}

namespace {

struct Candidate {
    const NodeStatus* node;
    NodeState state;
    bool ours;     // it runs a job of the cluster
    bool leaving;  // it had to go when the cluster became smaller
    int rank;      // lower is better
};

int rank_of(NodeState state, bool ours, bool assigned) {
    if (ours) return 0;
    switch (state) {
        case NodeState::idle:
            return assigned ? 1 : 3;
        case NodeState::unusable:
            return assigned ? 5 : 6;
        default:
            return assigned ? 2 : 4;
    }
}

std::vector<Candidate> candidates_of(const std::vector<NodeStatus>& nodes,
                                     const std::vector<ClusterJob>& jobs,
                                     const std::optional<Assignment>& assignment) {
    const auto uses = uses_of(jobs);
    std::vector<Candidate> candidates;
    for (const NodeStatus& node : nodes) {
        const auto used = uses.find(node.name);
        const bool ours = used != uses.end();
        const NodeState state = node_state(node, ours ? used->second : NodeUse::none);
        const bool leaving = assignment && assignment->leaving.contains(node.name);
        const bool assigned = assignment && assignment->nodes.contains(node.name);
        if (state == NodeState::off || state == NodeState::foreign) continue;
        if (!ours && assignment && assignment->others.contains(node.name)) continue;
        // Slurm powers such a node down for a reason of its own.
        if (!ours && assignment && !assigned && !leaving && state != NodeState::idle) continue;
        const int rank = rank_of(state, ours, assigned) + (leaving && !assigned ? 10 : 0);
        candidates.push_back({&node, state, ours, leaving, rank});
    }
    std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
        return a.rank != b.rank ? a.rank < b.rank : a.node->name < b.node->name;
    });
    return candidates;
}

}  // namespace

ClusterView cluster_view(const std::vector<NodeStatus>& nodes, const std::vector<ClusterJob>& jobs,
                         int target, const std::optional<Assignment>& assignment) {
    ClusterView view;
    int within = 0;
    bool moving = false;
    for (const Candidate& candidate : candidates_of(nodes, jobs, assignment)) {
        ClusterNode shown{.name = candidate.node->name,
                          .state = candidate.state,
                          .reason = {},
                          .did_not_start = did_not_start(*candidate.node)};
        if (shown.state == NodeState::unusable) shown.reason = candidate.node->reason;
        if (assignment && assignment->nodes.contains(shown.name) &&
            shown.state == NodeState::unusable)
            view.unusable.push_back(shown);
        if (within < target && !(candidate.leaving && !candidate.ours)) {
            ++within;
            moving = moving || is_moving(*candidate.node);
        } else if (candidate.ours || (candidate.leaving && shown.state == NodeState::leaving)) {
            shown.state = NodeState::leaving;
            moving = true;
        } else {
            continue;
        }
        count(shown.state, view.counts);
        view.nodes.push_back(std::move(shown));
    }
    const auto by_name = [](const ClusterNode& a, const ClusterNode& b) { return a.name < b.name; };
    std::sort(view.nodes.begin(), view.nodes.end(), by_name);
    if (!assignment)
        std::copy_if(view.nodes.begin(), view.nodes.end(), std::back_inserter(view.unusable),
                     [](const ClusterNode& node) { return node.state == NodeState::unusable; });
    std::sort(view.unusable.begin(), view.unusable.end(), by_name);
    view.current_node_count = within - view.counts.unusable;
    if (moving) view.allocation_state = AllocationState::resizing;
    return view;
}

int autoscale_target(int minimum, int maximum, int wanted_by_jobs) {
    return std::clamp(wanted_by_jobs, minimum, std::max(minimum, maximum));
}

}  // namespace batchai::slurm
