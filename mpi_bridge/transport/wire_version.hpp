// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mpi_bridge {

// The number of the format of what ranks send each other, over whatever network. It is raised with
// each change that another version of the library would misread. A rank publishes it with its
// address, so that ranks with different versions say so instead of misreading each other.
inline constexpr std::uint8_t wire_version = 7;

}  // namespace mpi_bridge
