// SPDX-License-Identifier: Apache-2.0
#include "collectives/group_layout.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace mpi_bridge {
namespace {

// Numbers hosts from 0 in the order of first appearance.
std::vector<int> numbered_anew(const std::vector<int>& hosts) {
    std::map<int, int> number;
    std::vector<int> result;
    result.reserve(hosts.size());
    for (const int host : hosts) {
        const auto next = static_cast<int>(number.size());
        result.push_back(number.emplace(host, next).first->second);
    }
    return result;
}

int index_of(const std::vector<int>& values, int value) {
    return static_cast<int>(std::find(values.begin(), values.end(), value) - values.begin());
}

}  // namespace

std::vector<int> Layout::across() const {
    std::vector<int> list;
    for (const auto& host : members) {
        if (static_cast<int>(host.size()) > own_local_rank) {
            list.push_back(host[static_cast<std::size_t>(own_local_rank)]);
        }
    }
    return list;
}

Layout make_layout(const Group& group) {
    Layout layout;
    layout.hosts = group.hosts;
    layout.local_ranks.reserve(group.hosts.size());
    for (std::size_t member = 0; member < group.hosts.size(); ++member) {
        const auto host = static_cast<std::size_t>(group.hosts[member]);
        if (host == layout.members.size()) layout.members.emplace_back();
        layout.local_ranks.push_back(static_cast<int>(layout.members[host].size()));
        layout.members[host].push_back(static_cast<int>(member));
    }
    const auto own = static_cast<std::size_t>(group.own);
    layout.own_host = group.hosts[own];
    layout.own_local_rank = layout.local_ranks[own];
    layout.rails = layout.local_size();
    for (const auto& host : layout.members) {
        const auto local_size = static_cast<int>(host.size());
        layout.most_local_ranks = std::max(layout.most_local_ranks, local_size);
        layout.rails = std::min(layout.rails, local_size);
    }
    return layout;
}

Group part_of(const Group& group, const std::vector<int>& members) {
    Group part;
    std::vector<int> hosts;
    for (const int member : members) {
        part.ranks.push_back(group.ranks[static_cast<std::size_t>(member)]);
        hosts.push_back(group.hosts[static_cast<std::size_t>(member)]);
    }
    part.own = index_of(members, group.own);
    part.hosts = numbered_anew(hosts);
    return part;
}

Group make_group(std::vector<int> ranks, int own_rank, const std::vector<int>& host_of_rank) {
    Group group;
    group.ranks = std::move(ranks);
    group.own = index_of(group.ranks, own_rank);
    std::vector<int> hosts;
    for (const int rank : group.ranks)
        hosts.push_back(host_of_rank[static_cast<std::size_t>(rank)]);
    group.hosts = numbered_anew(hosts);
    return group;
}

}  // namespace mpi_bridge
