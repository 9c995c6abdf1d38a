// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "tools/timeline/summary.hpp"

namespace mpi_bridge::timeline_tool {

// The summary as text for people: the `most` tensors that took the longest (0: all of them), then
// the ranks, then what had not ended, what failed and what is missing.
[[nodiscard]] std::string summary_table(const Summary& summary, std::size_t most);

}  // namespace mpi_bridge::timeline_tool
