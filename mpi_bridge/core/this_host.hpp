// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace mpi_bridge {

// The name of this host; "" if the kernel does not tell.
[[nodiscard]] std::string host_name();

// What tells this start of this machine's kernel from all others, whatever hosts are called; "" if
// /proc does not tell. Containers of a host have the same.
[[nodiscard]] std::string boot_id();

}  // namespace mpi_bridge
