// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <tuple>
#include <type_traits>

#include "base/record.hpp"

namespace batchai::base {

// Fills all that the tables of fields name, so that a new field is in the tests of records: puts
// one entry into what can be empty, `text` into every string, the least allowed number where the
// default is less, and the same time into all times.
template <typename T>
void fill(T& value, const std::string& text) {
    using record_detail::is_map;
    using record_detail::is_optional;
    using record_detail::is_vector;
    if constexpr (std::is_same_v<T, std::string>) {
        value = text;
    } else if constexpr (std::is_same_v<T, Time>) {
        value = Time(std::chrono::seconds(1'700'000'000));
    } else if constexpr (std::is_same_v<T, Value>) {
        value = Value::Object{{text, text}};
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
        std::apply([&](const auto&... fields) { (fill_field(fields), ...); }, fields_of<T>);
    }
}

}  // namespace batchai::base
