// SPDX-License-Identifier: Apache-2.0
#include "collectives/layout.hpp"

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

Layout make_layout(const Group& group) {
    Layout layout;
    std::vector<std::vector<int>> members_of_host;
    layout.seats.reserve(group.hosts.size());
    for (std::size_t member = 0; member < group.hosts.size(); ++member) {
        const auto host = static_cast<std::size_t>(group.hosts[member]);
        if (host == members_of_host.size()) members_of_host.emplace_back();
        layout.seats.push_back(static_cast<int>(members_of_host[host].size()));
        members_of_host[host].push_back(static_cast<int>(member));
    }
    const auto own = static_cast<std::size_t>(group.own);
    layout.host_count = static_cast<int>(members_of_host.size());
    layout.own_host = group.hosts[own];
    layout.own_seat = layout.seats[own];
    layout.local = members_of_host[static_cast<std::size_t>(layout.own_host)];
    for (const auto& members : members_of_host) {
        layout.leaders.push_back(members.front());
        if (static_cast<int>(members.size()) > layout.own_seat) {
            layout.across.push_back(members[static_cast<std::size_t>(layout.own_seat)]);
        }
        layout.shared = layout.shared || members.size() > 1;
        layout.even = layout.even && members.size() == layout.local.size();
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
