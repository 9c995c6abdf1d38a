// SPDX-License-Identifier: Apache-2.0
//
// Dissemination barrier. In step k every rank signals the rank 2^k above it and waits for the
// signal of the rank 2^k below it, both modulo the number of ranks. After step k a rank has heard,
// directly or indirectly, from the 2^(k+1) ranks that end with itself; after ceil(log2 n) steps it
// has heard from all. Signals are empty messages.
#include "collectives/algorithms/collectives.hpp"

namespace mpi_bridge {

Done barrier_dissemination(Conversation& talk) {
    const int size = talk.size();
    std::uint32_t step = 0;
    for (long distance = 1; distance < size; distance *= 2) {
        const int above = static_cast<int>((talk.rank() + distance) % size);
        const int below = static_cast<int>((talk.rank() - distance + size) % size);
        TRY(talk.exchange(above, {}, below, {}, step));
        ++step;
    }
    return {};
}

}  // namespace mpi_bridge
