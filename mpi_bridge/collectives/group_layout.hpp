// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "core/group.hpp"

namespace mpi_bridge {

// Where the members of a group are, for the hierarchical collectives. The members of each host are
// numbered from 0 ("seats"), in the order of the group; the one in seat 0 leads the host.
struct Layout {
    std::vector<std::vector<int>> members;  // numbers within the group, by host and seat
    std::vector<int> hosts;                 // of each member
    std::vector<int> seats;                 // of each member
    int own_host = 0;
    int own_seat = 0;
    int most_seats = 0;  // the largest number of seats on any host
    // The number of seats that every host has. Between hosts, members in one of these seats talk to
    // those in the same seat of the other hosts, so that as many members as possible use the
    // network at once.
    int common_seats = 0;

    [[nodiscard]] int host_of(int member) const { return hosts[static_cast<std::size_t>(member)]; }
    [[nodiscard]] int seat_of(int member) const { return seats[static_cast<std::size_t>(member)]; }
    // The common seat that serves this seat between hosts; a common seat serves itself.
    [[nodiscard]] int carrier_of(int seat) const { return seat % common_seats; }
    // Visits the members of a host whose seats a common seat serves, beginning with its own.
    template <typename Visit>
    void for_each_carried(int host, int common_seat, Visit visit) const {
        const auto& all = of_host(host);
        for (auto seat = static_cast<std::size_t>(common_seat); seat < all.size();
             seat += static_cast<std::size_t>(common_seats)) {
            visit(all[seat]);
        }
    }

    [[nodiscard]] int host_count() const { return static_cast<int>(members.size()); }
    [[nodiscard]] const std::vector<int>& of_host(int host) const {
        return members[static_cast<std::size_t>(host)];
    }
    [[nodiscard]] const std::vector<int>& local() const { return of_host(own_host); }
    [[nodiscard]] int local_size() const { return static_cast<int>(local().size()); }
    [[nodiscard]] bool leads() const { return own_seat == 0; }
    [[nodiscard]] bool has_common_seat() const { return own_seat < common_seats; }
    // Whether some host has several members.
    [[nodiscard]] bool shared() const { return most_seats > 1; }
    // The members in this rank's seat, by host; hosts without this seat are left out.
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
