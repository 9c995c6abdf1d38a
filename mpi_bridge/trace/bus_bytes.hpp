// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mpi_bridge_engine.h"

namespace mpi_bridge {

// The bytes that bus bandwidth counts, as nccl-tests define them (doc/PERFORMANCE.md there): what a
// rank's link must carry at least, whatever the algorithm. Divided by the time, they can be
// compared with the link's speed.
//
// `bytes` is what nccl-tests call the size: of the vector for allreduce, reduce and broadcast; of
// all ranks' parts together for allgather (the result) and reduce-scatter (the input); of one
// rank's whole send buffer for alltoall. The result is rounded down to whole bytes. It is 0 for a
// single rank, which moves nothing, and for a barrier and a join.
[[nodiscard]] std::uint64_t bus_bytes(mpib_kind kind, int ranks, std::uint64_t bytes);

}  // namespace mpi_bridge
