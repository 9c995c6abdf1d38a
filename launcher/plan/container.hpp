// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string_view>
#include <vector>

#include "plan/plan.hpp"

// What a container makes of the environment that Slurm brings from the submitting host. The planner
// expands $NAME by it, and the nodes set it: both have to see the same.

namespace batchai::plan {

// Paths and settings of the submitting host's software, which is not in the container. They do not
// get in unless the image or the job sets them.
[[nodiscard]] const std::vector<std::string_view>& variables_of_host_software();

// What the image sets: its own variables but for those of the user, who is the same inside as
// outside, and a PATH in any case.
[[nodiscard]] std::vector<Variable> image_environment(const Container& container);

}  // namespace batchai::plan
