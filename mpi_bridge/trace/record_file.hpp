// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mpi_bridge {

// Writes a file with one JSON object whose members are strings, for a launcher to read. A record
// that cannot be written is not an error.
void write_record(const std::string& path,
                  const std::vector<std::pair<std::string_view, std::string_view>>& members);

}  // namespace mpi_bridge
