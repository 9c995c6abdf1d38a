// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/elastic.hpp"

#include <charconv>
#include <string_view>

#include <fmt/format.h>

namespace batchai::plan {

namespace {

constexpr int most_restarts = 1000;

// If a variable is set more than once, the last value counts, as in the job's environment.
const std::string* value_of(const std::vector<Variable>& environment, std::string_view name) {
    const std::string* value = nullptr;
    for (const Variable& variable : environment) {
        if (variable.name == name) value = &variable.value;
    }
    return value;
}

base::Result<int> number(std::string_view name, const std::string& text, int least, int most) {
    int value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && value >= least && value <= most) return value;
    return base::fail(
        fmt::format("{} is \"{}\"; it must be a number from {} to {}", name, text, least, most),
        std::string(name));
}

}  // namespace

base::Result<std::optional<Elastic>> elastic_of(const std::vector<Variable>& environment,
                                                int nodes) {
    const std::string* const least = value_of(environment, elastic_nodes_variable);
    if (least == nullptr) return std::optional<Elastic>();
    Elastic out;
    const auto least_nodes = TRY(number(elastic_nodes_variable, *least, 1, nodes));
    out.least_nodes = least_nodes;
    if (const std::string* const text = value_of(environment, elastic_restarts_variable)) {
        const auto restarts = TRY(number(elastic_restarts_variable, *text, 0, most_restarts));
        out.restarts = restarts;
    }
    return std::optional<Elastic>(out);
}

}  // namespace batchai::plan
