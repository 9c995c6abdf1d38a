// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/failure.hpp"

namespace mpi_bridge {

// Backs [offset, offset + bytes) of a memory file with memory now, so that a lack of memory is an
// error here and not a SIGBUS at the first access. `purpose` and `remedy` are for the message: what
// the memory is for, and what helps if there is none. Any thread may call.
[[nodiscard]] Done reserve_space(int file, std::uint64_t offset, std::uint64_t bytes,
                                 std::string_view purpose, std::string_view remedy);

// The longest file that this process may make (RLIMIT_FSIZE); going beyond it raises SIGXFSZ.
[[nodiscard]] std::uint64_t longest_file();

}  // namespace mpi_bridge
