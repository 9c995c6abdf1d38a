// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "job/model.hpp"
#include "job/schema/faults.hpp"
#include "job/syntax/tree.hpp"

// The parameters of a sweep, whose names the field table cannot know.
namespace batchai::job {

inline constexpr std::size_t maximum_sweep_points = 10'000;
inline constexpr std::size_t maximum_sweep_parameters = 64;
inline constexpr std::size_t longest_sweep_value = 4096;

// Reads the value of "parameters". If there is any fault, no parameter is left in the settings.
void read_sweep_parameters(SweepSettings& settings, const Node& node, Faults& faults);

// Reads "lr=0.1,0.01" or "seed=1-8", as `job create --sweep` takes them.
[[nodiscard]] base::Result<SweepParameter> sweep_parameter_of_flag(std::string_view text);

// Adds a parameter, in place of one of the same name.
void add_sweep_parameter(SweepSettings& settings, SweepParameter parameter);

struct SweepFault {
    Fault fault;
    std::string_view key;  // of "sweep"
    std::string message;
    std::string hint;
};

// Returns what is wrong between the keys of a sweep whose keys are right by themselves. A sweep
// without faults has between 1 and maximum_sweep_points points.
[[nodiscard]] std::optional<SweepFault> fault_of(const SweepSettings& settings);

}  // namespace batchai::job
