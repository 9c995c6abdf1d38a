// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <tuple>
#include <type_traits>

#include "base/record.hpp"

namespace batchai::plan {

// Fills all that the tables of fields name, so that a new field of a plan is in the tests of plans:
// puts one entry into what can be empty, `text` into every string, and the least allowed number
// where the default is less.
template <typename T>
void fill(T& value, const std::string& text) {
    using base::record_detail::is_map;
    using base::record_detail::is_optional;
    using base::record_detail::is_vector;
    if constexpr (std::is_same_v<T, std::string>) {
        value = text;
    } else if constexpr (is_optional<T>) {
        fill(value.emplace(), text);
    } else if constexpr (is_vector<T>) {
        fill(value.emplace_back(), text);
    } else if constexpr (is_map<T>) {
        fill(value["key"], text);
    } else if constexpr (!std::is_arithmetic_v<T> && !std::is_enum_v<T> &&
                         !std::is_same_v<T, std::chrono::minutes>) {
        const auto fill_field = [&](const auto& field) {
            auto& member = value.*(field.member);
            fill(member, text);
            if constexpr (std::is_same_v<std::decay_t<decltype(member)>, int>)
                member = std::max(member, static_cast<int>(std::max<std::int64_t>(field.least, 0)));
        };
        std::apply([&](const auto&... fields) { (fill_field(fields), ...); }, base::fields_of<T>);
    }
}

}  // namespace batchai::plan
