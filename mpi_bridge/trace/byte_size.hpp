// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace mpi_bridge {

// "12 bytes", "4.0 MiB".
[[nodiscard]] std::string byte_size_text(std::uint64_t bytes);

}  // namespace mpi_bridge
