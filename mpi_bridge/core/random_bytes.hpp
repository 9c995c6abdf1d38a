// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "core/failure.hpp"

namespace mpi_bridge {

// Fills at most 256 bytes from the kernel's unpredictable generator.
[[nodiscard]] Done fill_random(std::span<std::byte> bytes);

}  // namespace mpi_bridge
