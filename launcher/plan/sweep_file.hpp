// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "plan/plan.hpp"
#include "plan/sweep.hpp"
#include "record/job_files.hpp"

// sweep.json of the job directory: the points of a sweep as they were submitted.
namespace batchai::plan {

// Returns stable JSON ("schema": "batchai-sweep/v1"), with one newline at the end.
[[nodiscard]] std::string to_json(const Sweep& sweep);
[[nodiscard]] base::Result<Sweep> sweep_from_json(std::string_view text);

// Returns the points of the plan's job. Refuses a file that does not have the digest that is in the
// plan, so that what runs is what was submitted.
[[nodiscard]] base::Result<Sweep> read_sweep(const Plan& plan);

// Returns the plan of one task of an array job (of_array_task), with the values of its point
// if the job is a sweep.
[[nodiscard]] base::Result<Plan> plan_of_task(const Plan& plan, int task);

}  // namespace batchai::plan
