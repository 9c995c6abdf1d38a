// SPDX-License-Identifier: Apache-2.0
#include "collectives/hierarchical/hierarchy.hpp"

namespace mpi_bridge {

Slice slice_of_seat(const Layout& layout, std::size_t count, int seat) {
    if (seat >= layout.common_seats) return {count, 0};
    return even_slice(count, layout.common_seats, seat);
}

Done reduce_to_seats(const Hierarchy& all, const Reduction& reduction, const std::byte* send,
                     std::byte* accumulators, std::span<const std::size_t> counts) {
    // With a reduce-scatter a rank reduces only what it gets. With a reduce all ranks take a share.
    if (all.layout.common_seats == 1) {
        return all.stage.reduce(all.turn, reduction, send, accumulators, counts[0], 0);
    }
    return all.stage.reduce_scatter(all.turn, reduction, send, accumulators, counts);
}

}  // namespace mpi_bridge
