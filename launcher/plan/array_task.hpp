// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string_view>

#include "plan/plan.hpp"

namespace batchai::plan {

// The tasks of an array job were submitted with one plan. What each of them runs is that plan with
// directories of its own: for its records, its logs and outputs, and its files on the nodes. All
// programs of a task make the same plan of the frozen one.
[[nodiscard]] Plan of_array_task(const Plan& plan, int task);

// The number that SLURM_ARRAY_TASK_ID says; nothing when it is empty or no number.
[[nodiscard]] std::optional<int> array_task_number(std::string_view text);

}  // namespace batchai::plan
