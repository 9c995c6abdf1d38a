// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/output/value.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace batchai::cli {

const Value& Value::operator[](std::string_view key) const {
    static const Value null;
    const auto* members = object();
    if (members == nullptr) return null;
    const auto found = std::find_if(members->begin(), members->end(),
                                    [&](const Member& member) { return member.first == key; });
    return found == members->end() ? null : found->second;
}

void Value::set(std::string_view key, Value value) {
    if (!is_object()) data_ = Object{};
    auto& members = std::get<Object>(data_);
    const auto found = std::find_if(members.begin(), members.end(),
                                    [&](const Member& member) { return member.first == key; });
    if (found == members.end()) {
        members.emplace_back(std::string(key), std::move(value));
    } else {
        found->second = std::move(value);
    }
}

std::vector<const Value::Member*> sorted_members(const Value::Object& object) {
    std::vector<const Value::Member*> members;
    members.reserve(object.size());
    for (const auto& member : object)
        members.push_back(&member);
    std::stable_sort(members.begin(), members.end(),
                     [](const auto* a, const auto* b) { return a->first < b->first; });
    return members;
}

std::string number_text(double number) {
    if (!std::isfinite(number)) return "null";
    auto text = fmt::format("{}", number);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
}

}  // namespace batchai::cli
