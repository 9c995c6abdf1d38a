// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plan/plan.hpp"
#include "plan/sweep.hpp"

// The only code that moves a frozen plan: to a task of an array job, and to another directory of
// the user's on a node. The old place is replaced in every text that the plan has, so that a new
// member moves without further ado. What stays is named in relocate.cpp.
namespace batchai::plan {

// All tasks of an array job are submitted with one plan. Returns the plan that one task runs: the
// same plan with directories of the task's own for its records, its logs and outputs, and its files
// on the nodes. Every program of a task derives this plan from the frozen one, so that all of them
// work with the same directories. If the plan has a sweep, `point` has the values of the task's
// parameters.
[[nodiscard]] Plan of_array_task(Plan plan, int task, const SweepPoint& point = {});

// Reads the number in SLURM_ARRAY_TASK_ID. Returns nothing if `text` is empty or not such a number.
[[nodiscard]] std::optional<int> array_task_number(std::string_view text);

// Returns the plan for a node on which `node_root` is the user's directory, in place of the one
// that was planned.
[[nodiscard]] Plan with_node_root(Plan plan, const std::string& node_root);

}  // namespace batchai::plan
