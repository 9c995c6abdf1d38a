// SPDX-License-Identifier: Apache-2.0
//
// Chain broadcast, for long data among few ranks: every rank forwards each segment to the next one
// while it receives the following ones. No rank sends more than the data once, which is the least
// possible; but the last rank has its first segment only after n-1 steps. See collectives/tree.hpp.
#include "collectives/collectives.hpp"
#include "collectives/tree.hpp"

namespace mpi_bridge {

Done broadcast_chain(Conversation& talk, Bytes data, int root) {
    if (talk.size() == 1 || data.empty()) return {};
    return broadcast_down(talk, data, chain(talk.rank(), talk.size(), root));
}

}  // namespace mpi_bridge
