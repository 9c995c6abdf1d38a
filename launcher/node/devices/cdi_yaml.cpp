// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/devices/cdi_yaml.hpp"

#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

namespace batchai::node {

namespace {

using base::Value;

// No file that is meant to be read is deeper; a loop of aliases would have no end.
constexpr int deepest = 32;

// "?" is the tag of a plain scalar, "!" that of a quoted one.
Value scalar(const YAML::Node& node) {
    const std::string& text = node.Scalar();
    if (node.Tag() != "?") return text;
    if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL")
        return Value();
    if (text == "true" || text == "True" || text == "TRUE") return true;
    if (text == "false" || text == "False" || text == "FALSE") return false;
    std::int64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc() && stop == end) return number;
    return text;
}

Value convert(const YAML::Node& node, int depth) {
    if (depth > deepest)
        throw std::runtime_error(
            fmt::format("line {}: is nested too deeply", node.Mark().line + 1));
    if (node.IsSequence()) {
        Value::Array list;
        for (const YAML::Node& entry : node)
            list.push_back(convert(entry, depth + 1));
        return list;
    }
    if (node.IsMap()) {
        Value object(Value::Object{});
        for (const auto& member : node)
            object.set(member.first.as<std::string>(), convert(member.second, depth + 1));
        return object;
    }
    return node.IsScalar() ? scalar(node) : Value();
}

}  // namespace

base::Value json_of_yaml(std::string_view text) {
    return convert(YAML::Load(std::string(text)), 0);
}

}  // namespace batchai::node
