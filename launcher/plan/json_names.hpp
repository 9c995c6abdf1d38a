// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "plan/plan.hpp"

// The words of a plan's JSON that its writer and its reader share.
namespace batchai::plan {

inline constexpr std::string_view plan_schema = "batchai-plan/v2";

inline constexpr std::array scope_names = {
    std::pair{std::string_view("job"), MountScope::job},
    std::pair{std::string_view("cluster"), MountScope::cluster},
};

inline constexpr std::array step_names = {
    std::pair{std::string_view("preparation"), StepKind::preparation},
    std::pair{std::string_view("ranks"), StepKind::ranks},
    std::pair{std::string_view("master"), StepKind::master},
};

template <typename Names, typename Value>
constexpr std::string_view name_of(const Names& names, Value value) {
    for (const auto& [name, candidate] : names) {
        if (candidate == value) return name;
    }
    return {};
}

}  // namespace batchai::plan
