// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

namespace batchai::run {

// One line a node for mpirun: "10.0.0.4 slots=2 max_slots=2".
[[nodiscard]] std::string host_file(const std::vector<std::string>& addresses, int slots);

}  // namespace batchai::run
