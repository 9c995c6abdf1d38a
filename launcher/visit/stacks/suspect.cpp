// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/stacks/suspect.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

#include "base/text.hpp"
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

// Python code by which ranks talk to each other. What they wait in is the innermost of it.
constexpr std::array<std::string_view, 4> folders_of_communication{
    "/mpi_bridge/", "/horovod/", "/torch/distributed/", "/mpi4py/"};

// Functions of C and Fortran for the same, in small letters.
constexpr std::array<std::string_view, 4> names_of_communication{"mpi_", "pmpi_", "mpib_", "nccl"};

bool is_call_of_communication(const StackFrame& frame) {
    const std::string name = base::lower(frame.function);
    return std::any_of(names_of_communication.begin(), names_of_communication.end(),
                       [&](std::string_view prefix) { return name.starts_with(prefix); });
}

bool is_in_communication(const StackGroup& group) {
    if (group.frames.empty())
        return std::any_of(group.native.begin(), group.native.end(), is_call_of_communication);
    return std::any_of(folders_of_communication.begin(), folders_of_communication.end(),
                       [&](std::string_view folder) {
                           return group.frames.front().file.find(folder) != std::string::npos;
                       });
}

// Those that are not in a call in which the others wait for them.
std::optional<Suspect> of_communication(const std::vector<StackGroup>& groups) {
    std::vector<const StackGroup*> waiting;
    std::vector<const StackGroup*> others;
    for (const StackGroup& group : groups) {
        if (!is_of_ranks(group)) continue;
        // Where it is cannot be told, so it may be in such a call, too.
        if (group.frames.empty() && group.native.empty()) return std::nullopt;
        (is_in_communication(group) ? waiting : others).push_back(&group);
    }
    return if_on_one_node(others, waiting);
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
    std::vector<const StackGroup*> others;
    for (const StackGroup& group : groups) {
        if (is_of_ranks(group) && &group != most) others.push_back(&group);
    }
    return if_on_one_node(others, {most});
}

}  // namespace

std::optional<Suspect> suspect(const std::vector<NodeStacks>& nodes,
                               const std::vector<StackGroup>& groups) {
    if (auto found = of_bridges(nodes, groups)) return found;
    if (auto found = of_communication(groups)) return found;
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
