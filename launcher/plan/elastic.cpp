// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/elastic.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "base/text.hpp"

namespace batchai::plan {

namespace {

constexpr int most_restarts = 1000;

base::Result<int> number(std::string_view name, const std::string& text, int least, int most) {
    const auto value = base::number_in<int>(text);
    if (value && *value >= least && *value <= most) return *value;
    return base::fail(
        fmt::format("{} is \"{}\"; it must be a number from {} to {}", name, text, least, most),
        std::string(name));
}

}  // namespace

bool outlives_nodes(const Plan& plan, bool is_elastic) {
    // The one process of a custom toolkit is not started again.
    const bool has_ranks = std::any_of(plan.steps.begin(), plan.steps.end(), [](const Step& step) {
        return step.kind == StepKind::ranks;
    });
    return is_elastic || (plan.allocation.spare_nodes > 0 && has_ranks);
}

base::Result<std::optional<Elastic>> elastic_of(const std::vector<Variable>& environment,
                                                int nodes) {
    const std::string* const least = last_value(environment, elastic_nodes_variable);
    if (least == nullptr) return std::optional<Elastic>();
    Elastic out;
    out.least_nodes = TRY(number(elastic_nodes_variable, *least, 1, nodes));
    if (const std::string* const text = last_value(environment, elastic_restarts_variable))
        out.restarts = TRY(number(elastic_restarts_variable, *text, 0, most_restarts));
    if (const std::string* const text = last_value(environment, elastic_leave_drained_variable))
        out.leaves_drained = TRY(number(elastic_leave_drained_variable, *text, 0, 1)) == 1;
    if (const std::string* const text = last_value(environment, elastic_keep_processes_variable))
        out.keeps_processes = TRY(number(elastic_keep_processes_variable, *text, 0, 1)) == 1;
    return std::optional<Elastic>(out);
}

}  // namespace batchai::plan
