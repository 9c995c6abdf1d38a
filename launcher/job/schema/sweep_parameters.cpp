// SPDX-License-Identifier: GPL-2.0-or-later
#include "job/schema/sweep_parameters.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"
#include "job/schema/checks.hpp"
#include "job/syntax/utf8.hpp"

namespace batchai::job {

namespace {

using Source = SweepParameter::Source;

constexpr std::string_view for_example =
    R"(for example "lr": [0.1, 0.01], "seed": "1-8", or "lr": {"loguniform": [1e-5, 0.1]})";

// Takes the place of AZ_BATCHAI_SWEEP_POINT, which is the number of the point.
constexpr std::string_view reserved = "POINT";

std::optional<std::string> fault_of_name(std::string_view name) {
    if (name.size() > 64 || check_text(Check::variable_name, name))
        return fmt::format("{} cannot be the name of a parameter", quote(name));
    if (base::upper(name) == reserved)
        return fmt::format("{} is the number of the point, so no parameter can have this name",
                           quote(name));
    return std::nullopt;
}

// Returns the numbers of "1-8" or "0-100:10"; nothing if the text is not such a range. A range with
// too many numbers has one more than may be.
std::optional<std::vector<std::string>> range_of(std::string_view text) {
    const std::size_t dash = text.find('-');
    if (dash == std::string_view::npos) return std::nullopt;
    const std::string_view rest = text.substr(dash + 1);
    const std::size_t colon = rest.find(':');
    const auto first = base::number_in<std::int64_t>(text.substr(0, dash));
    const auto last = base::number_in<std::int64_t>(rest.substr(0, colon));
    const auto step = colon == std::string_view::npos
                          ? std::optional<std::int64_t>(1)
                          : base::number_in<std::int64_t>(rest.substr(colon + 1));
    constexpr std::int64_t most = 1'000'000'000'000;
    if (!first || !last || !step || *first < 0 || *last < *first || *step < 1 || *last > most ||
        *step > most)
        return std::nullopt;
    std::vector<std::string> out;
    for (std::int64_t number = *first; number <= *last && out.size() <= maximum_sweep_points;
         number += *step)
        out.push_back(std::to_string(number));
    return out;
}

base::Value value_of(const Node& node) {
    switch (node.type) {
        case NodeType::boolean:
            return node.boolean;
        case NodeType::integer:
            if (const auto number = base::number_in<std::int64_t>(node.text)) return *number;
            [[fallthrough]];
        case NodeType::real:
            if (const auto number = base::parse_json(node.text, "")) return *number;
            return node.text;
        case NodeType::string:
            return node.text;
        case NodeType::array: {
            base::Value::Array out;
            for (const Node& item : node.items)
                out.push_back(value_of(item));
            return out;
        }
        case NodeType::object: {
            base::Value::Object out;
            for (const Member& member : node.members)
                out.emplace_back(member.key, value_of(member.value));
            return out;
        }
        case NodeType::null:
        case NodeType::broken:
            break;
    }
    return {};
}

class ParameterReader {
  public:
    explicit ParameterReader(Faults& faults) : faults_(faults) {}

    std::vector<SweepParameter> read(const Node& node) {
        if (node.type == NodeType::object)
            read_columns(node);
        else if (node.type == NodeType::array)
            read_rows(node);
        else if (node.type != NodeType::broken)
            wrong(node, "\"parameters\" must be an object or an array of objects");
        else
            failed_ = true;
        if (!failed_ && parameters_.empty()) wrong(node, "\"parameters\" must not be empty");
        if (failed_) parameters_.clear();
        return std::move(parameters_);
    }

  private:
    void fault(Fault fault, Position position, std::string message, std::string hint = {}) {
        failed_ = true;
        faults_.add(fault, position, std::move(message), std::move(hint));
    }
    void wrong(const Node& node, std::string message) {
        fault(Fault::wrong_type, node.position, std::move(message), std::string(for_example));
    }

    // Returns null after it has reported a fault.
    SweepParameter* add(const std::string& name, Position position) {
        if (const auto bad = fault_of_name(name)) {
            fault(Fault::bad_name, position, *bad,
                  "use at most 64 letters, digits and underscores, and no digit at the start");
            return nullptr;
        }
        for (const SweepParameter& other : parameters_) {
            if (base::upper(other.name) != base::upper(name)) continue;
            fault(Fault::duplicate_name, position,
                  fmt::format("the parameters {} and {} would have the same variable",
                              quote(other.name), quote(name)),
                  "rename one of the two");
            return nullptr;
        }
        if (parameters_.size() >= maximum_sweep_parameters) {
            fault(Fault::out_of_range, position,
                  fmt::format("a sweep has at most {} parameters", maximum_sweep_parameters));
            return nullptr;
        }
        return &parameters_.emplace_back(SweepParameter{.name = name});
    }

    void add_value(SweepParameter& parameter, const Node& node) {
        std::string text =
            node.type == NodeType::boolean ? (node.boolean ? "true" : "false") : node.text;
        const bool scalar = node.type == NodeType::string || node.type == NodeType::integer ||
                            node.type == NodeType::real || node.type == NodeType::boolean;
        if (node.type == NodeType::broken) {
            failed_ = true;
        } else if (!scalar) {
            wrong(node, fmt::format("each value of {} must be a string, a number, or true or false",
                                    quote(parameter.name)));
        } else if (text.find('\0') != std::string::npos) {
            fault(Fault::bad_text, node.position, "a value must not contain U+0000");
        } else if (text.size() > longest_sweep_value) {
            fault(Fault::bad_text, node.position,
                  fmt::format("a value of {} has {} bytes, more than {}", quote(parameter.name),
                              text.size(), longest_sweep_value),
                  "put it into a file, and let the parameter be the file's name");
        } else {
            parameter.values.push_back(std::move(text));
        }
    }

    void read_values(SweepParameter& parameter, const Node& array) {
        if (array.items.empty())
            fault(Fault::bad_text, array.position,
                  fmt::format("{} has no values", quote(parameter.name)), std::string(for_example));
        for (const Node& item : array.items)
            add_value(parameter, item);
    }

    void read_distribution(SweepParameter& parameter, const Node& object) {
        if (object.members.size() != 1)
            return wrong(object, fmt::format("{} must have one of \"uniform\", \"loguniform\" and "
                                             "\"choice\"",
                                             quote(parameter.name)));
        const Member& member = object.members.front();
        const Node& node = member.value;
        const bool log = member.key == "loguniform";
        if (member.key == "choice" && node.type == NodeType::array)
            return read_values(parameter, node);
        if ((member.key != "uniform" && !log) || node.type != NodeType::array)
            return wrong(object, fmt::format("{} must have one of \"uniform\", \"loguniform\" and "
                                             "\"choice\", each with an array",
                                             quote(parameter.name)));
        std::vector<double> bounds;
        for (const Node& item : node.items) {
            const bool number = item.type == NodeType::integer || item.type == NodeType::real;
            const auto bound =
                number ? base::parse_json(item.text, "") : base::Result<base::Value>(base::Value());
            if (!bound) continue;
            if (const auto* real = bound->real()) bounds.push_back(*real);
            if (const auto* integer = bound->integer())
                bounds.push_back(static_cast<double>(*integer));
        }
        const bool good = node.items.size() == 2 && bounds.size() == 2 &&
                          std::isfinite(bounds[0]) && std::isfinite(bounds[1]) &&
                          bounds[0] < bounds[1] && std::isfinite(bounds[1] - bounds[0]) &&
                          (!log || bounds[0] > 0);
        if (!good)
            return fault(Fault::out_of_range, node.position,
                         fmt::format("{} of {} must be two numbers, the smaller one first{}",
                                     quote(member.key), quote(parameter.name),
                                     log ? ", and both greater than 0" : ""),
                         log ? R"(for example {"loguniform": [1e-5, 0.1]})"
                             : R"(for example {"uniform": [0, 0.5]})");
        parameter.source = log ? Source::log_uniform : Source::uniform;
        parameter.low = bounds[0];
        parameter.high = bounds[1];
    }

    void read_columns(const Node& object) {
        for (const Member& member : object.members) {
            if (member.repeated || member.key.starts_with('$')) continue;
            SweepParameter* const parameter = add(member.key, member.position);
            if (parameter == nullptr) continue;
            const Node& node = member.value;
            const auto range = node.type == NodeType::string ? range_of(node.text) : std::nullopt;
            if (node.type == NodeType::array)
                read_values(*parameter, node);
            else if (node.type == NodeType::object)
                read_distribution(*parameter, node);
            else if (range)
                parameter->values = *range;
            else if (node.type == NodeType::string)
                fault(Fault::bad_text, node.position,
                      fmt::format("{} is not a range of numbers: {}", quote(parameter->name),
                                  quote(node.text)),
                      R"(write a range as "1-8" or "0-100:10", and a single value in [ ])");
            else if (node.type == NodeType::broken)
                failed_ = true;
            else
                wrong(node, fmt::format("{} must be an array, a range or an object",
                                        quote(parameter->name)));
        }
    }

    void read_rows(const Node& array) {
        for (const Node& row : array.items) {
            if (row.type == NodeType::broken) {
                failed_ = true;
                continue;
            }
            if (row.type != NodeType::object)
                return wrong(row, "each element of \"parameters\" must be an object");
            read_row(row, &row == &array.items.front());
            if (failed_) return;
        }
    }

    void read_row(const Node& row, bool first) {
        std::size_t count = 0;
        for (const Member& member : row.members) {
            if (member.repeated) continue;
            auto found = std::find_if(parameters_.begin(), parameters_.end(),
                                      [&](const auto& p) { return p.name == member.key; });
            if (found == parameters_.end() && !first)
                return fault(Fault::bad_text, member.position,
                             fmt::format("the first point has no parameter {}", quote(member.key)),
                             "give all points the same parameters");
            SweepParameter* const parameter =
                found == parameters_.end() ? add(member.key, member.position) : &*found;
            if (parameter == nullptr) return;
            add_value(*parameter, member.value);
            ++count;
        }
        if (count != parameters_.size())
            fault(Fault::bad_text, row.position, "a parameter of the first point is missing here",
                  "give all points the same parameters");
    }

    Faults& faults_;
    std::vector<SweepParameter> parameters_;
    bool failed_ = false;
};

std::string too_many() {
    return fmt::format("a sweep has at most {} points", maximum_sweep_points);
}

std::optional<SweepFault> fault_of_list(const SweepSettings& settings) {
    const auto& first = settings.parameters.front();
    for (const SweepParameter& parameter : settings.parameters) {
        if (parameter.values.size() == first.values.size()) continue;
        return SweepFault{
            .fault = Fault::conflict,
            .key = "parameters",
            .message =
                fmt::format("{} has {} values and {} has {}, but the mode \"list\" takes one "
                            "of each for every point",
                            quote(first.name), first.values.size(), quote(parameter.name),
                            parameter.values.size()),
            .hint = "give all parameters equally many values, or use the mode \"grid\""};
    }
    if (first.values.size() <= maximum_sweep_points) return std::nullopt;
    return SweepFault{
        .fault = Fault::out_of_range, .key = "parameters", .message = too_many(), .hint = {}};
}

std::optional<SweepFault> fault_of_grid(const SweepSettings& settings) {
    std::size_t points = 1;
    for (const SweepParameter& parameter : settings.parameters) {
        if (points <= maximum_sweep_points) points *= parameter.values.size();
    }
    if (points <= maximum_sweep_points) return std::nullopt;
    return SweepFault{.fault = Fault::out_of_range,
                      .key = "parameters",
                      .message = too_many() + ", and this grid has more",
                      .hint = "give fewer values, or draw some points with the mode \"random\""};
}

}  // namespace

void read_sweep_parameters(SweepSettings& settings, const Node& node, Faults& faults) {
    settings.parameters = ParameterReader(faults).read(node);
    settings.parameters_as_given = value_of(node);
}

base::Result<SweepParameter> sweep_parameter_of_flag(std::string_view text) {
    const auto wrong = [](std::string what) {
        return base::fail(std::move(what), "--sweep",
                          "write it as --sweep lr=0.1,0.01 or --sweep seed=1-8",
                          base::ExitCode::usage);
    };
    const std::size_t sign = text.find('=');
    if (sign == std::string_view::npos)
        return wrong(fmt::format("{} names no values", quote(text)));
    SweepParameter parameter{.name = std::string(text.substr(0, sign))};
    if (const auto bad = fault_of_name(parameter.name)) return wrong(*bad);
    const std::string_view list = text.substr(sign + 1);
    if (list.empty()) return wrong(fmt::format("{} has no values", quote(parameter.name)));
    if (!is_utf8(list)) return wrong("the values must be UTF-8");
    if (auto range = range_of(list)) {
        parameter.values = std::move(*range);
        return parameter;
    }
    for (const std::string_view value : base::split(list, ',')) {
        if (value.size() > longest_sweep_value)
            return wrong(fmt::format("a value of {} has {} bytes, more than {}",
                                     quote(parameter.name), value.size(), longest_sweep_value));
        parameter.values.emplace_back(value);
    }
    return parameter;
}

void add_sweep_parameter(SweepSettings& settings, SweepParameter parameter) {
    base::Value::Array values(parameter.values.begin(), parameter.values.end());
    settings.parameters_as_given.set(parameter.name, std::move(values));
    for (SweepParameter& other : settings.parameters) {
        if (other.name != parameter.name) continue;
        other = std::move(parameter);
        return;
    }
    settings.parameters.push_back(std::move(parameter));
}

std::optional<SweepFault> fault_of(const SweepSettings& settings) {
    const auto fault = [](std::string_view key, std::string message, std::string hint) {
        return SweepFault{Fault::conflict, key, std::move(message), std::move(hint)};
    };
    const bool random = settings.mode == SweepMode::random;
    if (settings.parameters_as_given.is_array() && settings.mode != SweepMode::list)
        return fault("parameters", "an array of points needs the mode \"list\"",
                     R"(add "mode": "list")");
    if (random && !settings.samples)
        return fault("mode", "the mode \"random\" needs \"samples\"", R"(add "samples": 20)");
    if (!random && settings.samples)
        return fault("samples", "\"samples\" needs the mode \"random\"",
                     "remove it, or add \"mode\": \"random\"");
    if (!random && settings.seed)
        return fault("seed", "\"seed\" needs the mode \"random\"",
                     "remove it, or add \"mode\": \"random\"");
    for (const SweepParameter& parameter : settings.parameters) {
        if (!random && parameter.source != Source::values)
            return fault("parameters",
                         fmt::format("{} is drawn at random, which needs the mode \"random\"",
                                     quote(parameter.name)),
                         R"(add "mode": "random" and "samples")");
        if (parameter.values.size() > maximum_sweep_points)
            return SweepFault{Fault::out_of_range,
                              "parameters",
                              fmt::format("{} has more than {} values", quote(parameter.name),
                                          maximum_sweep_points),
                              {}};
    }
    // The faults of the parameters have been reported.
    if (settings.parameters.empty() || random) return std::nullopt;
    return settings.mode == SweepMode::list ? fault_of_list(settings) : fault_of_grid(settings);
}

}  // namespace batchai::job
