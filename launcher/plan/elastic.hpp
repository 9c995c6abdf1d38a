// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <vector>

#include "base/error.hpp"
#include "plan/plan.hpp"

namespace batchai::plan {

inline constexpr const char* elastic_nodes_variable = "BATCHAI_ELASTIC_MIN_NODES";
inline constexpr const char* elastic_restarts_variable = "BATCHAI_ELASTIC_RESTARTS";

// A job whose ranks can go on, from their last commit, with fewer nodes than they began with.
struct Elastic {
    int least_nodes = 1;  // with fewer the job fails
    int restarts = 3;     // of its ranks within one allocation; the next failure is final

    bool operator==(const Elastic&) const = default;
};

// What the job file says by the two variables among its environmentVariables, which Batch AI's own
// service passes on without a meaning; nothing when it does not have the first. An error, with the
// variable as `where`, when a value makes no sense for a job of so many nodes.
[[nodiscard]] base::Result<std::optional<Elastic>> elastic_of(
    const std::vector<Variable>& environment, int nodes);

}  // namespace batchai::plan
