// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "core/failure.hpp"
#include "core/group.hpp"
#include "mpi_bridge_engine.h"

namespace mpi_bridge {

// Refuses (MPIB_ERROR_INVALID_ARGUMENT) an operation that is invalid for this group, as far as this
// rank alone can tell. The text names the operation and the error.
[[nodiscard]] Done check_operation(const mpib_operation& operation, const Group& group);

// The number of bytes that recv of a checked operation can hold, for kinds where other ranks can
// make the result longer than that. SIZE_MAX means that the engine provides the memory.
[[nodiscard]] std::size_t room_of(const mpib_operation& operation);

}  // namespace mpi_bridge
