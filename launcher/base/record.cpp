// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/record.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace batchai::base::record_detail {

namespace {

constexpr std::string_view schema_key = "schema";

}  // namespace

bool Reader::complain(const std::string& place, const std::string& what) {
    if (fault_.empty()) fault_ = (place.empty() ? "the record" : "\"" + place + "\"") + what;
    return false;
}

bool Reader::read_number(const Value& from, std::int64_t& into, std::int64_t least,
                         std::int64_t most, const std::string& place) {
    const std::int64_t* const number = from.integer();
    if (number == nullptr) return complain(place, " is not an integer");
    if (*number < least)
        return complain(place, fmt::format(" is not an integer of at least {}", least));
    if (*number > most) return complain(place, fmt::format(" is not an integer up to {}", most));
    into = *number;
    return true;
}

bool Reader::read_time(const Value& from, Time& into, const std::string& place) {
    const std::string* const text = from.string();
    const auto time = text != nullptr ? from_iso8601(*text) : std::nullopt;
    if (!time) return complain(place, " is not a time");
    into = *time;
    return true;
}

bool Reader::only_known(const Value& from, const std::vector<std::string_view>& keys,
                        const std::string& place) {
    for (const auto& [key, value] : *from.object()) {
        const bool known = std::find(keys.begin(), keys.end(), key) != keys.end() ||
                           (place.empty() && key == schema_key);
        if (!known) return complain(joined(place, key), " is not known");
    }
    return true;
}

const Value* Reader::member(const Value& object, std::string_view key) {
    for (const auto& [name, value] : *object.object()) {
        if (name == key) return &value;
    }
    return nullptr;
}

std::string Reader::joined(const std::string& place, std::string_view key) {
    return place.empty() ? std::string(key) : fmt::format("{}.{}", place, key);
}

Result<Value> parse_with_schema(std::string_view text, std::string_view schema) {
    auto root = parse_json(text, {});
    if (!root)
        return fail(fmt::format("{} at {}", root.error().what, root.error().where.substr(1)));
    if (!root->is_object()) return fail("the record is not an object");
    const Value& schema_value = (*root)[schema_key];
    const std::string* const found = schema_value.string();
    if (found == nullptr)
        return fail(schema_value.is_null() ? "\"schema\" is missing"
                                           : "\"schema\" is not a string");
    if (*found != schema)
        return fail(fmt::format("\"schema\" is \"{}\", this program reads \"{}\"", *found, schema));
    return root;
}

std::string print_with_schema(const Value& value, std::string_view schema) {
    Value::Object out{{std::string(schema_key), Value(schema)}};
    for (const Value::Member& member : *value.object())
        out.push_back(member);
    return format_json(Value(std::move(out)));
}

}  // namespace batchai::base::record_detail
