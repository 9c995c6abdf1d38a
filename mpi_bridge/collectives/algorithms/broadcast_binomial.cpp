// SPDX-License-Identifier: Apache-2.0
//
// Binomial tree broadcast, for short data: ceil(log2 n) steps, in each of which the root sends all
// its data. See collectives/algorithms/tree.hpp.
#include "collectives/algorithms/collectives.hpp"
#include "collectives/algorithms/tree.hpp"

namespace mpi_bridge {

Done broadcast_binomial(Conversation& talk, Bytes data, int root) {
    if (talk.size() == 1 || data.empty()) return {};
    return broadcast_down(talk, data, binomial_tree(talk.rank(), talk.size(), root));
}

}  // namespace mpi_bridge
