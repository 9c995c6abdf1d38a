// SPDX-License-Identifier: Apache-2.0
//
// Chain broadcast, for long data among few ranks: every rank forwards each segment to the next rank
// while it receives the following segments. No rank sends more than the data once, which is the
// least possible, but the last rank receives its first segment only after n-1 steps. See
// collectives/algorithms/tree.hpp.
#include "collectives/algorithms/collectives.hpp"
#include "collectives/algorithms/tree.hpp"

namespace mpi_bridge {

Done broadcast_chain(Conversation& talk, Bytes data, int root) {
    if (talk.size() == 1 || data.empty()) return {};
    return broadcast_down(talk, data, chain(talk.rank(), talk.size(), root));
}

}  // namespace mpi_bridge
