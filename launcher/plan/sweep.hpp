// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/record.hpp"
#include "job/model.hpp"
#include "plan/plan.hpp"

// The points of a sweep. They are fixed when the job is submitted, each as a task of an array job
// whose number is that of the point.
namespace batchai::plan {

// The values of a point's parameters, in the order of the parameters.
using SweepPoint = std::vector<std::string>;

struct Sweep {
    job::SweepMode mode = job::SweepMode::grid;
    std::optional<std::int64_t> seed;  // of mode random
    std::vector<std::string> parameters;
    std::vector<SweepPoint> points;
    std::optional<int> max_concurrent;
    std::optional<job::SweepMetric> metric;

    bool operator==(const Sweep&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("mode", &Sweep::mode),
                          field("seed", &Sweep::seed),
                          field("parameters", &Sweep::parameters),
                          field("maxConcurrent", &Sweep::max_concurrent),
                          field("metric", &Sweep::metric),
                          field("points", &Sweep::points)};
    }
};

// Returns the points of settings that have no faults (job::fault_of). In a grid, the last parameter
// changes fastest. The points of mode random depend on nothing but the settings.
[[nodiscard]] Sweep sweep_of(const job::SweepSettings& settings);

// Returns the name of the variable that has the value of a parameter: "AZ_BATCHAI_SWEEP_" and the
// name in capital letters.
[[nodiscard]] std::string sweep_variable(std::string_view parameter);
// The variable that has the number of the point.
inline constexpr std::string_view sweep_point_variable = "AZ_BATCHAI_SWEEP_POINT";

// All points share one plan. In its paths and variables, this text stands for a parameter's value,
// and with an empty name for the number of the point. It has the job's UUID, so that nothing else
// is the same by chance.
[[nodiscard]] std::string sweep_placeholder(std::string_view uuid, std::string_view parameter);

// Returns whether a value can be a part of one component of a path, and of a word for the shell
// that is quoted. Such a value cannot lead to another directory.
[[nodiscard]] bool may_be_in_path(std::string_view value);

// Returns the value of Slurm's option "array": "0-99%4".
[[nodiscard]] std::string array_of(const Sweep& sweep);

}  // namespace batchai::plan
