// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/group.hpp"

namespace mpi_bridge {

// Where the members of a group are, as hierarchical collectives see it. Each host's members are
// numbered from 0 ("seats"), in the order of the group; the one in seat 0 leads the host.
struct Layout {
    int host_count = 0;
    int own_host = 0;
    int own_seat = 0;
    std::vector<int> local;    // members on the own host, by seat
    std::vector<int> leaders;  // the member in seat 0 of each host, by host
    std::vector<int> across;   // members in the own seat of each host that has this seat, by host
    std::vector<int> seats;    // of each member
    bool shared = false;       // some host has several members
    bool even = true;          // every host has the same number of members

    [[nodiscard]] int local_size() const { return static_cast<int>(local.size()); }
    [[nodiscard]] bool leads() const { return own_seat == 0; }
};

// group.hosts must number the hosts from 0 in the order of their lowest members.
[[nodiscard]] Layout make_layout(const Group& group);

// The group of some members of a group, given by their numbers, ascending; own is the index of
// `group.own` among them, which must occur. Its hosts are numbered anew.
[[nodiscard]] Group part_of(const Group& group, const std::vector<int>& members);

// The ranks of `ranks` (global, ascending) as a group. host_of_rank gives the host of every rank.
[[nodiscard]] Group make_group(std::vector<int> ranks, int own_rank,
                               const std::vector<int>& host_of_rank);

}  // namespace mpi_bridge
