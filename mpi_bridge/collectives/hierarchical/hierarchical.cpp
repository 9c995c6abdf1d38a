// SPDX-License-Identifier: Apache-2.0
#include "collectives/hierarchical/hierarchical.hpp"

namespace mpi_bridge {

Slice slice_of_rail(const Layout& layout, std::size_t count, int local_rank) {
    if (local_rank >= layout.rails) return {count, 0};
    return even_slice(count, layout.rails, local_rank);
}

Done reduce_to_rails(const Hierarchy& all, const Reduction& reduction, const std::byte* send,
                     std::byte* accumulators, std::span<const std::size_t> counts) {
    // With a reduce-scatter a rank reduces only what it gets. With a reduce all ranks take a share.
    if (all.layout.rails == 1) {
        return all.stage.reduce(all.turn, reduction, send, accumulators, counts[0], 0);
    }
    return all.stage.reduce_scatter(all.turn, reduction, send, accumulators, counts);
}

}  // namespace mpi_bridge
