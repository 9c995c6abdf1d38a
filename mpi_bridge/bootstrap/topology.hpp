// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/failure.hpp"

namespace mpi_bridge {

// The place of this rank among the others; mpi_bridge.h explains the terms.
struct Topology {
    int rank = 0;
    int size = 1;
    int local_rank = 0;
    int local_size = 1;
    int cross_rank = 0;
    int cross_size = 1;
    bool homogeneous = true;
    std::vector<int> host_of_rank{0};  // hosts are numbered by their lowest rank
};

// `hosts` lists the ranks of each host. Every rank from 0 to the last must occur exactly once;
// anything else is MPIB_ERROR_BOOTSTRAP. Hosts are numbered by their lowest rank and local ranks by
// rank, so that every rank computes the same numbers whatever the order of the lists.
[[nodiscard]] Outcome<Topology> make_topology(int rank, std::vector<std::vector<int>> hosts);

}  // namespace mpi_bridge
