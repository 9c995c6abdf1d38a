// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "plan/plan.hpp"

// plan.json of the job directory: the plan as it was submitted, which every node reads.
namespace batchai::plan {

// Returns stable, pretty-printed JSON ("schema": "batchai-plan/v3"), with the keys in a fixed order
// and one newline at the end.
[[nodiscard]] std::string to_json(const Plan& plan);

// Reads what to_json() wrote. Refuses other schemas, missing and unknown keys, and wrong types. The
// error names the key.
[[nodiscard]] base::Result<Plan> plan_from_json(std::string_view text);

// Returns the plan at `path`. Refuses a plan that does not have this SHA-256, so that what runs is
// what was submitted, and one that names a job directory which is not the user's own. In a task of
// an array job, returns the plan of that task.
[[nodiscard]] base::Result<Plan> read_plan(const std::string& path, const std::string& digest,
                                           std::optional<int> array_task = std::nullopt);

}  // namespace batchai::plan
