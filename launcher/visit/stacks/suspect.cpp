// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/stacks/suspect.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "visit/stacks/bridges.hpp"
#include "visit/stacks/torch_calls.hpp"

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

// The rank that has this number for mpi_bridge or torch.distributed, as `number_of` says. A process
// that a rank has started may be the one that uses these.
std::optional<Suspect> of_number(std::optional<int> awaited, const std::vector<NodeStacks>& nodes,
                                 const std::vector<StackGroup>& groups, const auto& number_of) {
    if (!awaited) return std::nullopt;
    // Other steps of the job may have ranks of their own with the same numbers.
    const std::string step = step_of_ranks(nodes);
    for (const NodeStacks& node : nodes) {
        for (const JobProcess& process : node.processes) {
            if (process.step != step || number_of(process) != awaited) continue;
            const StackGroup* const group = group_of(groups, node.node, process.process);
            return Suspect{.rank = process.rank,
                           .node = node.node,
                           .where = group == nullptr ? std::string() : group->where};
        }
    }
    return std::nullopt;
}

std::optional<int> number_for_bridge(const JobProcess& process) {
    return process.bridge ? std::optional(process.bridge->rank) : std::nullopt;
}
std::optional<int> number_for_torch(const JobProcess& process) {
    return process.torch ? process.torch->rank : std::nullopt;
}

// Returns the members of `others` if nobody else can be to blame: they are on one node, and not all
// ranks are there.
std::optional<Suspect> if_on_one_node(const std::vector<const StackGroup*>& others,
                                      const std::vector<const StackGroup*>& rest) {
    if (others.empty() || rest.empty()) return std::nullopt;
    const StackMember& first = others.front()->members.front();
    const auto all_there = [&](const StackGroup* group) {
        return std::all_of(group->members.begin(), group->members.end(),
                           [&](const StackMember& member) { return member.node == first.node; });
    };
    if (!std::all_of(others.begin(), others.end(), all_there)) return std::nullopt;
    const bool is_alone = others.size() == 1 && others.front()->members.size() == 1;
    if (!is_alone && std::all_of(rest.begin(), rest.end(), all_there)) return std::nullopt;
    return Suspect{.rank = is_alone ? first.rank : std::nullopt,
                   .node = first.node,
                   .where = others.front()->where};
}

// Those that are not in a call in which the others wait for them.
std::optional<Suspect> of_communication(const std::vector<StackGroup>& groups) {
    std::vector<const StackGroup*> waiting;
    std::vector<const StackGroup*> others;
    for (const StackGroup& group : groups) {
        if (!is_of_ranks(group)) continue;
        // Where it is cannot be told, so it may be in such a call, too.
        const bool says_nothing = group.frames.empty() && group.native.empty();
        if (group.is_unknown || says_nothing) return std::nullopt;
        (group.is_in_communication ? waiting : others).push_back(&group);
    }
    return if_on_one_node(others, waiting);
}

// Those that are not where most are.
std::optional<Suspect> of_groups(const std::vector<StackGroup>& groups) {
    std::size_t ranks = 0;
    const StackGroup* most = nullptr;
    std::size_t known = 0;
    std::size_t unknown = 0;
    for (const StackGroup& group : groups) {
        if (!is_of_ranks(group)) continue;
        ++(group.is_unknown ? unknown : known);
        ranks += group.members.size();
        if (most == nullptr || group.members.size() > most->members.size()) most = &group;
    }
    // A rank that only the kernel tells of may be where the others are.
    if (known > 0 && unknown > 0) return std::nullopt;
    if (most == nullptr || 2 * most->members.size() <= ranks) return std::nullopt;
    std::vector<const StackGroup*> others;
    for (const StackGroup& group : groups) {
        if (is_of_ranks(group) && &group != most) others.push_back(&group);
    }
    return if_on_one_node(others, {most});
}

}  // namespace

std::optional<Suspect> suspect(const std::vector<NodeStacks>& nodes,
                               const std::vector<StackGroup>& groups) {
    if (auto found = of_number(awaited_rank(nodes), nodes, groups, number_for_bridge)) return found;
    if (auto found = of_number(rank_awaited_by_torch(nodes), nodes, groups, number_for_torch))
        return found;
    if (auto found = of_communication(groups)) return found;
    return of_groups(groups);
}

std::string frameworks_text(const std::vector<NodeStacks>& nodes) {
    return bridge_text(nodes) + torch_text(nodes);
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
