// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "plan/plan.hpp"

namespace batchai::run {

// What Slurm gave us, as its environment variables say it.
struct Granted {
    std::string job_id;
    int restart = 0;                 // SLURM_RESTART_COUNT: 0 on the first run
    std::vector<std::string> nodes;  // expanded, in Slurm's order; the first is the master
};

using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

// Refuses with one clear message when we are not inside an allocation, or when it has another
// number of nodes than the plan: two sources of truth for a size are an error, with both values.
[[nodiscard]] base::Result<Granted> granted(const Lookup& environment, const plan::Plan& plan);

// getenv as a Lookup.
[[nodiscard]] std::optional<std::string> from_environment(const std::string& name);

}  // namespace batchai::run
