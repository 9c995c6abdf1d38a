// SPDX-License-Identifier: Apache-2.0
//
// By leaders: the root shows its node the data. One rank of each node, on the rail that serves the
// root, passes the data from node to node and shows it to its own node.
//
// By rails: the root shows its node the data, the ranks on rails pass one slice each from
// node to node, and the ranks of the other nodes show each other their slices.
//
// In both variants, a node sends and receives as much as one rank in a broadcast among the nodes:
// each node other than the root's receives the data once, or nearly twice if the algorithm is a
// scatter and an allgather.
#include <vector>

#include "collectives/hierarchical/hierarchical.hpp"

namespace mpi_bridge {

Done broadcast_by_leaders(const Hierarchy& all, Bytes data, int root) {
    const int root_local_rank = all.layout.local_rank_of(root);
    const int root_host = all.layout.host_of(root);
    const int rail = all.layout.rail_of(root_local_rank);
    const bool at_root = all.layout.own_host == root_host;
    if (at_root) TRY(all.stage.broadcast(all.turn, data, root_local_rank));
    if (all.layout.own_local_rank == rail) {
        TRY(all.choose<Broadcast>(data.size()).run(all.across, data, root_host));
    }
    return at_root ? Done() : all.stage.broadcast(all.turn, data, rail);
}

Done broadcast_by_rails(const Hierarchy& all, Bytes data, int root) {
    const int root_host = all.layout.host_of(root);
    const bool at_root = all.layout.own_host == root_host;
    std::vector<Bytes> slices;
    for (int local_rank = 0; local_rank < all.layout.local_size(); ++local_rank) {
        const Slice slice = slice_of_rail(all.layout, data.size(), local_rank);
        slices.push_back(data.subspan(slice.offset, slice.length));
    }
    if (at_root) TRY(all.stage.broadcast(all.turn, data, all.layout.local_rank_of(root)));
    if (all.layout.on_rail()) {
        const Bytes own = slices[static_cast<std::size_t>(all.layout.own_local_rank)];
        TRY(all.choose<Broadcast>(data.size()).run(all.across, own, root_host));
    }
    return at_root ? Done() : all.stage.allgather(all.turn, slices);
}

}  // namespace mpi_bridge
