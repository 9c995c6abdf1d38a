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

// Those that are not where most are.
std::optional<Suspect> of_groups(const std::vector<StackGroup>& groups) {
    std::size_t ranks = 0;
    const StackGroup* most = nullptr;
    for (const StackGroup& group : groups) {
        if (!is_of_ranks(group)) continue;
        ranks += group.members.size();
        if (most == nullptr || group.members.size() > most->members.size()) most = &group;
    }
    if (most == nullptr || 2 * most->members.size() <= ranks) return std::nullopt;
    const StackGroup* other = nullptr;
    std::size_t others = 0;
    for (const StackGroup& group : groups) {
        if (!is_of_ranks(group) || &group == most) continue;
        if (other == nullptr) other = &group;
        for (const StackMember& member : group.members) {
            ++others;
            if (member.node != other->members.front().node) return std::nullopt;
        }
    }
    if (other == nullptr) return std::nullopt;
    const StackMember& first = other->members.front();
    const bool on_one_node =
        std::all_of(most->members.begin(), most->members.end(),
                    [&](const StackMember& member) { return member.node == first.node; });
    if (others > 1 && on_one_node) return std::nullopt;
    return Suspect{
        .rank = others == 1 ? first.rank : std::nullopt, .node = first.node, .where = other->where};
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
