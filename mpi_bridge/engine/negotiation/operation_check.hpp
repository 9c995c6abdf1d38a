// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "core/failure.hpp"
#include "core/group.hpp"
#include "mpi_bridge_engine.h"

namespace mpi_bridge {

// Refuses (MPIB_ERROR_INVALID_ARGUMENT) what is wrong with an operation of this group on this rank
// alone. The text names the operation and what is wrong with it.
[[nodiscard]] Done check_operation(const mpib_operation& operation, const Group& group);

// How many bytes recv of a checked operation can hold, as far as other ranks can make the result
// longer than that. SIZE_MAX: the engine provides the memory.
[[nodiscard]] std::size_t room_of(const mpib_operation& operation);

}  // namespace mpi_bridge
