// SPDX-License-Identifier: Apache-2.0
//
// By leaders: the root shows its node the data. One rank of each node, in the root's seat if every
// host has that seat, passes the data from node to node and shows it to its own node.
//
// By seats: the root shows its node the data, the ranks in common seats pass one slice each from
// node to node, and the ranks of the other nodes show each other their slices.
//
// In both variants, a node sends and receives as much as one rank in a broadcast among the nodes:
// each node other than the root's receives the data once, or nearly twice if the algorithm is a
// scatter and an allgather.
#include <vector>

#include "collectives/hierarchical/hierarchical.hpp"

namespace mpi_bridge {

Done broadcast_by_leaders(const Hierarchy& all, Bytes data, int root) {
    const int root_seat = all.layout.seat_of(root);
    const int root_host = all.layout.host_of(root);
    const int carrier = all.layout.carrier_of(root_seat);
    const bool at_root = all.layout.own_host == root_host;
    if (at_root) TRY(all.stage.broadcast(all.turn, data, root_seat));
    if (all.layout.own_seat == carrier) {
        TRY(all.choose<Broadcast>(data.size()).run(all.across, data, root_host));
    }
    return at_root ? Done() : all.stage.broadcast(all.turn, data, carrier);
}

Done broadcast_by_seats(const Hierarchy& all, Bytes data, int root) {
    const int root_host = all.layout.host_of(root);
    const bool at_root = all.layout.own_host == root_host;
    std::vector<Bytes> slices;
    for (int seat = 0; seat < all.layout.local_size(); ++seat) {
        const Slice slice = slice_of_seat(all.layout, data.size(), seat);
        slices.push_back(data.subspan(slice.offset, slice.length));
    }
    if (at_root) TRY(all.stage.broadcast(all.turn, data, all.layout.seat_of(root)));
    if (all.layout.has_common_seat()) {
        const Bytes own = slices[static_cast<std::size_t>(all.layout.own_seat)];
        TRY(all.choose<Broadcast>(data.size()).run(all.across, own, root_host));
    }
    return at_root ? Done() : all.stage.allgather(all.turn, slices);
}

}  // namespace mpi_bridge
