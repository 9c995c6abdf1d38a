// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/sweep.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <fmt/format.h>

#include "base/text.hpp"
#include "job/syntax/utf8.hpp"
#include "plan/planning.hpp"

namespace batchai::plan {

namespace {

using job::SweepParameter;

// SplitMix64. The distributions of the standard library differ between its versions, and the same
// seed must draw the same points everywhere.
class Draw {
  public:
    explicit Draw(std::uint64_t seed) : state_(seed) {}

    std::uint64_t bits() {
        state_ += 0x9E3779B97F4A7C15ULL;
        std::uint64_t out = state_;
        out = (out ^ (out >> 30U)) * 0xBF58476D1CE4E5B9ULL;
        out = (out ^ (out >> 27U)) * 0x94D049BB133111EBULL;
        return out ^ (out >> 31U);
    }
    // At least 0 and less than 1.
    double fraction() { return static_cast<double>(bits() >> 11U) * 0x1p-53; }
    // Less than `count`, which is so small that the remainder favours no number noticeably.
    std::size_t index(std::size_t count) { return static_cast<std::size_t>(bits() % count); }

  private:
    std::uint64_t state_;
};

std::string drawn(const SweepParameter& parameter, Draw& draw) {
    switch (parameter.source) {
        case SweepParameter::Source::values:
            return parameter.values[draw.index(parameter.values.size())];
        case SweepParameter::Source::uniform:
            return fmt::format("{:.6g}",
                               parameter.low + draw.fraction() * (parameter.high - parameter.low));
        case SweepParameter::Source::log_uniform:
            break;
    }
    const double low = std::log(parameter.low);
    return fmt::format("{:.6g}",
                       std::exp(low + draw.fraction() * (std::log(parameter.high) - low)));
}

std::vector<SweepPoint> grid(const std::vector<SweepParameter>& parameters) {
    std::vector<SweepPoint> points{{}};
    for (const SweepParameter& parameter : parameters) {
        std::vector<SweepPoint> longer;
        longer.reserve(points.size() * parameter.values.size());
        for (const SweepPoint& point : points) {
            for (const std::string& value : parameter.values)
                longer.emplace_back(point).push_back(value);
        }
        points = std::move(longer);
    }
    return points;
}

std::vector<SweepPoint> list(const std::vector<SweepParameter>& parameters) {
    std::vector<SweepPoint> points(parameters.front().values.size());
    for (const SweepParameter& parameter : parameters) {
        for (std::size_t i = 0; i < points.size(); ++i)
            points[i].push_back(parameter.values[i]);
    }
    return points;
}

std::vector<SweepPoint> random(const job::SweepSettings& settings) {
    Draw draw(static_cast<std::uint64_t>(settings.seed.value_or(0)));
    std::vector<SweepPoint> points(static_cast<std::size_t>(settings.samples.value_or(1)));
    for (SweepPoint& point : points) {
        for (const SweepParameter& parameter : settings.parameters)
            point.push_back(drawn(parameter, draw));
    }
    return points;
}

}  // namespace

Sweep sweep_of(const job::SweepSettings& settings) {
    Sweep sweep{.mode = settings.mode,
                .seed = {},
                .parameters = {},
                .points = {},
                .max_concurrent = settings.max_concurrent,
                .metric = settings.metric};
    for (const SweepParameter& parameter : settings.parameters)
        sweep.parameters.push_back(parameter.name);
    switch (settings.mode) {
        case job::SweepMode::grid:
            sweep.points = grid(settings.parameters);
            break;
        case job::SweepMode::list:
            sweep.points = list(settings.parameters);
            break;
        case job::SweepMode::random:
            sweep.seed = settings.seed.value_or(0);
            sweep.points = random(settings);
            break;
    }
    return sweep;
}

std::string sweep_variable(std::string_view parameter) {
    return "AZ_BATCHAI_SWEEP_" + base::upper(parameter);
}

std::string sweep_placeholder(std::string_view uuid, std::string_view parameter) {
    return fmt::format("{{sweep.{}@{}}}", parameter, uuid);
}

bool may_be_in_path(std::string_view value) {
    const auto good = [](char c) {
        return base::is_letter(c) || base::is_digit(c) ||
               std::string_view("_-+=,.:@%").find(c) != std::string_view::npos;
    };
    // ".." could become a component of its own. A name has at most 255 bytes.
    return !value.empty() && value.size() <= 200 && std::all_of(value.begin(), value.end(), good) &&
           value.find_first_not_of('.') != std::string_view::npos;
}

std::string array_of(const Sweep& sweep) {
    std::string out = sweep.points.size() == 1 ? "0" : fmt::format("0-{}", sweep.points.size() - 1);
    if (sweep.max_concurrent) out += fmt::format("%{}", *sweep.max_concurrent);
    return out;
}

namespace {

constexpr std::string_view sweep_pointer = "/properties/sweep";

void define_parameter(Planning& planning, std::string name, std::string value) {
    planning.scope.set(name, value);
    planning.plan.environment.push_back({std::move(name), std::move(value)});
}

}  // namespace

void plan_sweep_array(Planning& planning) {
    if (!planning.spec.sweep) return;
    auto& options = planning.plan.allocation.options;
    const auto has = [&](std::string_view name) {
        return std::any_of(options.begin(), options.end(),
                           [&](const SlurmOption& option) { return option.name == name; });
    };
    if (has("array"))
        planning.findings.add(Finding::bad_sweep, sweep_pointer,
                              "\"sweep\" and an array contradict each other",
                              "leave out \"array\": the points are the tasks of an array");
    planning.sweep = sweep_of(*planning.spec.sweep);
    options.push_back({.name = "array",
                       .value = array_of(*planning.sweep),
                       .origin = Origin::job_file,
                       .must_agree = true,
                       .key = "sweep"});
    planning.plan.sweep = SweepPoints{.parameters = planning.sweep->parameters,
                                      .count = static_cast<int>(planning.sweep->points.size()),
                                      .digest = {}};
}

void plan_sweep_variables(Planning& planning) {
    if (!planning.sweep) return;
    const std::string& uuid = planning.plan.identity.uuid;
    define_parameter(planning, std::string(sweep_point_variable), sweep_placeholder(uuid, {}));
    for (const std::string& parameter : planning.sweep->parameters)
        define_parameter(planning, sweep_variable(parameter), sweep_placeholder(uuid, parameter));
}

bool Planning::refuse_sweep_in_path(std::string_view text, std::string_view pointer) {
    if (!sweep || text.find("{sweep.") == std::string_view::npos) return false;
    for (std::size_t i = 0; i < sweep->parameters.size(); ++i) {
        const std::string& name = sweep->parameters[i];
        if (text.find(sweep_placeholder(plan.identity.uuid, name)) == std::string_view::npos)
            continue;
        const auto bad =
            std::find_if(sweep->points.begin(), sweep->points.end(),
                         [&](const SweepPoint& point) { return !may_be_in_path(point[i]); });
        if (bad == sweep->points.end()) continue;
        findings.add(Finding::bad_sweep, pointer,
                     fmt::format("the value {} of the parameter \"{}\" cannot be a part of a path",
                                 job::quote((*bad)[i]), name),
                     fmt::format("use ${} instead, which is the number of the point, or values of "
                                 "at most 200 letters, digits and _ - + = , . : @ %",
                                 sweep_point_variable));
        return true;
    }
    return false;
}

namespace {

// Returns how long the text can become when the values take their places.
std::size_t longest_with_values(const Planning& planning, const std::string& text) {
    std::size_t size = text.size();
    const Sweep& sweep = *planning.sweep;
    for (std::size_t i = 0; i < sweep.parameters.size(); ++i) {
        const std::string placeholder =
            sweep_placeholder(planning.plan.identity.uuid, sweep.parameters[i]);
        std::size_t count = 0;
        for (auto at = text.find(placeholder); at != std::string::npos;
             at = text.find(placeholder, at + placeholder.size()))
            ++count;
        if (count == 0) continue;
        std::size_t longest = 0;
        for (const SweepPoint& point : sweep.points)
            longest = std::max(longest, point[i].size());
        size = size - count * placeholder.size() + count * longest;
    }
    return size;
}

}  // namespace

void check_sweep_sizes(Planning& planning) {
    if (!planning.sweep) return;
    for (const Variable& variable : planning.plan.environment) {
        const std::size_t bytes =
            variable.name.size() + longest_with_values(planning, variable.value) + 1;
        if (bytes < longest_argument) continue;
        planning.findings.add(
            Finding::too_long, sweep_pointer,
            fmt::format("the variable {} becomes too long at a point: Linux passes at most {} "
                        "bytes in one variable including its name",
                        variable.name, longest_argument - 1),
            "use shorter values");
    }
}

}  // namespace batchai::plan
