// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <tuple>

#include "base/record.hpp"

namespace batchai::base {

// An environment variable, or another pair of a name and a value.
struct Variable {
    std::string name;
    std::string value;

    bool operator==(const Variable&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("name", &Variable::name), field("value", &Variable::value)};
    }
};

}  // namespace batchai::base
