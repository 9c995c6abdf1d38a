// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "reduce/table.hpp"

namespace mpi_bridge {

// A build of the kernels for one kind of processor.
struct InstructionSet {
    const char* name;               // as in MPI_BRIDGE_KERNELS
    const char* needs;              // what the processor must have, for messages
    const KernelTable& (*table)();  // call it only if runs_here()
    bool (*runs_here)();
};

// All sets that this library was built with, the fastest last. The first, "portable", runs
// everywhere.
[[nodiscard]] std::span<const InstructionSet> instruction_sets();

}  // namespace mpi_bridge
