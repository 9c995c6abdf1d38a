// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/stacks/suspect.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "visit/stacks/bridges.hpp"

namespace batchai::visit {

namespace {

bool is_of_ranks(const StackGroup& group) {
    return group.role == StackRole::task && group.step.empty();
}

const StackGroup* group_of(const std::vector<StackGroup>& groups, const std::string& node,
                           int process) {
    for (const StackGroup& group : groups) {
        const bool has =
            is_of_ranks(group) &&
            std::any_of(group.members.begin(), group.members.end(), [&](const StackMember& member) {
                return member.node == node && member.process == process;
            });
        if (has) return &group;
    }
    return nullptr;
}

// A process that a rank has started may be the one that uses mpi_bridge.
std::optional<Suspect> of_bridges(const std::vector<NodeStacks>& nodes,
                                  const std::vector<StackGroup>& groups) {
    const auto awaited = awaited_rank(nodes);
    if (!awaited) return std::nullopt;
    for (const NodeStacks& node : nodes) {
        for (const JobProcess& process : node.processes) {
            if (!process.bridge || process.bridge->rank != *awaited) continue;
            const StackGroup* const group = group_of(groups, node.node, process.process);
            return Suspect{.rank = process.rank,
                           .node = node.node,
                           .where = group == nullptr ? std::string() : group->where};
        }
    }
    return std::nullopt;
}

std::optional<Suspect> of_groups(const std::vector<StackGroup>& groups) {
    const StackGroup* least = nullptr;
    std::size_t ranks = 0;
    bool only = false;
    for (const StackGroup& group : groups) {
        if (!is_of_ranks(group)) continue;
        ranks += group.members.size();
        if (least != nullptr && group.members.size() > least->members.size()) continue;
        only = least == nullptr || group.members.size() < least->members.size();
        least = &group;
    }
    if (least == nullptr || !only || 2 * least->members.size() >= ranks) return std::nullopt;
    const StackMember& first = least->members.front();
    if (std::any_of(least->members.begin(), least->members.end(),
                    [&](const StackMember& member) { return member.node != first.node; }))
        return std::nullopt;
    return Suspect{.rank = least->members.size() == 1 ? first.rank : std::nullopt,
                   .node = first.node,
                   .where = least->where};
}

}  // namespace

std::optional<Suspect> suspect(const std::vector<NodeStacks>& nodes,
                               const std::vector<StackGroup>& groups) {
    if (auto found = of_bridges(nodes, groups)) return found;
    return of_groups(groups);
}

std::string summary(const std::vector<StackGroup>& groups) {
    constexpr std::size_t most_groups = 3;
    std::string text;
    std::size_t count = 0;
    for (const StackGroup& group : groups) {
        if (!is_of_ranks(group) || ++count > most_groups) continue;
        if (!text.empty()) text += "; ";
        text += headline(group);
    }
    if (count > most_groups) text += fmt::format("; and {} more", count - most_groups);
    return text;
}

}  // namespace batchai::visit
