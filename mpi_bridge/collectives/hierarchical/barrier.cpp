// SPDX-License-Identifier: Apache-2.0
//
// All ranks of a node meet, then the leaders of all nodes, and then the ranks of each node again,
// so that no rank leaves before all leaders have met.
#include "collectives/algorithms/collectives.hpp"
#include "collectives/hierarchical/hierarchical.hpp"

namespace mpi_bridge {

Done barrier_by_leaders(const Hierarchy& all) {
    TRY(all.stage.barrier(all.turn));
    if (all.layout.leads()) TRY(barrier_dissemination(all.across));
    return all.stage.barrier(all.turn);
}

}  // namespace mpi_bridge
