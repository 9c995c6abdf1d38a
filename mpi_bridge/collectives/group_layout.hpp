// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "core/group.hpp"

namespace mpi_bridge {

// Where the members of a group are, for the hierarchical collectives. The members of each host are
// numbered from 0 in the order of the group: their local ranks. Local rank 0 leads the host.
//
// Between hosts, members with the same local rank talk to each other, which is a rail. There are as
// many rails as the host with the fewest members has members, so that as many members as possible
// use the network at once. A member beyond that is served by one of the rails.
struct Layout {
    std::vector<std::vector<int>> members;  // numbers within the group, by host and local rank
    std::vector<int> hosts;                 // of each member
    std::vector<int> local_ranks;           // of each member
    int own_host = 0;
    int own_local_rank = 0;
    int most_local_ranks = 0;  // of any host
    int rails = 0;             // rail r consists of the members with local rank r

    [[nodiscard]] int host_of(int member) const { return hosts[static_cast<std::size_t>(member)]; }
    [[nodiscard]] int local_rank_of(int member) const {
        return local_ranks[static_cast<std::size_t>(member)];
    }
    // The rail that serves a local rank between hosts.
    [[nodiscard]] int rail_of(int local_rank) const { return local_rank % rails; }
    // Visits the members of a host that a rail serves, beginning with its own.
    template <typename Visit>
    void for_each_on_rail(int host, int rail, Visit visit) const {
        const auto& all = of_host(host);
        for (auto local_rank = static_cast<std::size_t>(rail); local_rank < all.size();
             local_rank += static_cast<std::size_t>(rails)) {
            visit(all[local_rank]);
        }
    }

    [[nodiscard]] int host_count() const { return static_cast<int>(members.size()); }
    [[nodiscard]] const std::vector<int>& of_host(int host) const {
        return members[static_cast<std::size_t>(host)];
    }
    [[nodiscard]] const std::vector<int>& local() const { return of_host(own_host); }
    [[nodiscard]] int local_size() const { return static_cast<int>(local().size()); }
    [[nodiscard]] bool leads() const { return own_local_rank == 0; }
    // Whether this rank is on a rail, and not only served by one.
    [[nodiscard]] bool on_rail() const { return own_local_rank < rails; }
    // Whether some host has several members.
    [[nodiscard]] bool shared() const { return most_local_ranks > 1; }
    // The members with this local rank, by host; hosts without one are left out.
    [[nodiscard]] std::vector<int> across() const;
};

// group.hosts must number the hosts from 0, in the order of their lowest members.
[[nodiscard]] Layout make_layout(const Group& group);

// Makes a group of some members of a group, given by their numbers in ascending order; own is the
// index of `group.own` among them, which must occur. Its hosts are renumbered.
[[nodiscard]] Group part_of(const Group& group, const std::vector<int>& members);

// Makes a group of `ranks` (global, ascending). host_of_rank gives the host of every rank.
[[nodiscard]] Group make_group(std::vector<int> ranks, int own_rank,
                               const std::vector<int>& host_of_rank);

}  // namespace mpi_bridge
