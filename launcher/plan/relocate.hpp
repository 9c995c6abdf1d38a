// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string_view>

#include "plan/plan.hpp"
#include "plan/sweep.hpp"

namespace batchai::plan {

// All tasks of an array job are submitted with one plan. Returns the plan that one task runs: the
// same plan with directories of the task's own for its records, its logs and outputs, and its files
// on the nodes. Every program of a task derives this plan from the frozen one, so that all of them
// work with the same directories. If the plan has a sweep, `point` has the values of the task's
// parameters.
[[nodiscard]] Plan of_array_task(const Plan& plan, int task, const SweepPoint& point = {});

// Reads the number in SLURM_ARRAY_TASK_ID. Returns nothing if `text` is empty or not such a number.
[[nodiscard]] std::optional<int> array_task_number(std::string_view text);

}  // namespace batchai::plan
