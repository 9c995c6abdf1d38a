// SPDX-License-Identifier: Apache-2.0
#include "trace/bus_bytes.hpp"

namespace mpi_bridge {
namespace {

// bytes * (ranks - 1) / ranks without an overflow in between.
std::uint64_t all_but_own_share(std::uint64_t bytes, std::uint64_t ranks) {
    return bytes / ranks * (ranks - 1) + bytes % ranks * (ranks - 1) / ranks;
}

}  // namespace

std::uint64_t bus_bytes(mpib_kind kind, int ranks, std::uint64_t bytes) {
    if (ranks <= 1) return 0;
    const auto count = static_cast<std::uint64_t>(ranks);
    switch (kind) {
        case MPIB_ALLREDUCE: {
            // Twice the share, rounded once.
            const std::uint64_t remainder = bytes % count;
            return 2 * (bytes / count * (count - 1)) + 2 * remainder * (count - 1) / count;
        }
        case MPIB_ALLGATHER:
        case MPIB_REDUCE_SCATTER:
        case MPIB_ALLTOALL:
            return all_but_own_share(bytes, count);
        case MPIB_BROADCAST:
        case MPIB_REDUCE:
            return bytes;
        case MPIB_BARRIER:
        case MPIB_JOIN:
            break;
    }
    return 0;
}

}  // namespace mpi_bridge
