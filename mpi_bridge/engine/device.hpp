// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/failure.hpp"
#include "mpi_bridge_engine.h"

namespace mpi_bridge {

// Whether the engine can work on the memory that the operation names.
[[nodiscard]] inline Done check_memory(const mpib_operation& operation) {
    if ((operation.flags & MPIB_DEVICE) == 0) return {};
    return fail(MPIB_ERROR_INVALID_ARGUMENT, "device memory is not supported yet");
}

}  // namespace mpi_bridge
