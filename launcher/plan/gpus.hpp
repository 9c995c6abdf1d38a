// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>

#include "plan/plan.hpp"

namespace batchai::plan {

// Returns how many GPUs the options of the allocation ask for, on all nodes together. Returns
// nothing if they ask for none, and 0 if they do not tell the number (gpus-per-socket).
[[nodiscard]] std::optional<int> gpus_of_job(const Allocation& allocation);

}  // namespace batchai::plan
