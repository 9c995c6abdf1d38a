// SPDX-License-Identifier: Apache-2.0
//
// Binomial tree broadcast, for short data: ceil(log2 n) steps, of which the root sends all its data
// in each. See collectives/tree.hpp.
#include "collectives/collectives.hpp"
#include "collectives/tree.hpp"

namespace mpi_bridge {

Done broadcast_binomial(Conversation& talk, Bytes data, int root) {
    if (talk.size() == 1 || data.empty()) return {};
    return broadcast_down(talk, data, binomial_tree(talk.rank(), talk.size(), root));
}

}  // namespace mpi_bridge
