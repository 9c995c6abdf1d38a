// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <sys/types.h>

#include "mpi_bridge/core/visible_layout.hpp"
#include "visit/stacks/answer.hpp"

namespace batchai::node {

// What libmpi_bridge of a process shows of itself (mpi_bridge/core/visible_layout.hpp).
struct BridgeLook {
    int rank = -1;
    // Seconds in collectives, and how often some have ended; see WaitedTable.
    double waited = 0;
    std::int64_t meetings = 0;
    std::vector<mpi_bridge::VisibleWait> waits;
    std::vector<visit::OpenOperation> operations;
};

// Returns nothing if the process has not joined, or has another release of the library.
[[nodiscard]] std::optional<BridgeLook> look_at_bridge(pid_t process);

// Returns what two looks have in common: a wait that both have seen is not one of the many that
// last microseconds.
[[nodiscard]] visit::BridgeState lasting(const BridgeLook& first, const BridgeLook& second);

}  // namespace batchai::node
