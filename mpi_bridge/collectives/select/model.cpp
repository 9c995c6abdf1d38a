// SPDX-License-Identifier: Apache-2.0
#include "collectives/select/model.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>

#include <fmt/core.h>

namespace mpi_bridge {
namespace {

struct Unit {
    std::string_view name;
    double factor;
};
constexpr std::array times = {Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3}, Unit{"s", 1}};
constexpr std::array rates = {Unit{"kB/s", 1e3}, Unit{"MB/s", 1e6}, Unit{"GB/s", 1e9}};

// Reads a positive number with one of the units.
std::optional<double> parse_quantity(std::string_view text, std::span<const Unit> units) {
    double value = 0;
    const char* end = text.data() + text.size();
    const auto [rest, fault] = std::from_chars(text.data(), end, value);
    if (fault != std::errc() || !(value > 0) || !std::isfinite(value)) return std::nullopt;
    const std::string_view name(rest, static_cast<std::size_t>(end - rest));
    for (const Unit& unit : units) {
        if (unit.name == name) return value * unit.factor;
    }
    return std::nullopt;
}

// Shows the value in the largest unit that leaves at least 1, with six digits, so that a rounded
// model that is read back still leads to the same choices.
std::string quantity(double value, std::span<const Unit> units) {
    Unit best = units.front();
    for (const Unit& unit : units) {
        if (value >= unit.factor) best = unit;
    }
    return fmt::format("{:.6g}{}", value / best.factor, best.name);
}

double rounded_to_power_of_two(double value) {
    return std::exp2(std::round(std::log2(value)));
}

// Sets the cost given by `item`, such as "alpha=20us". Returns false if it is not valid.
bool set_cost(std::string_view item, Model& model) {
    const auto equals = item.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view name = item.substr(0, equals);
    const std::string_view value = item.substr(equals + 1);
    if (name == "alpha") {
        const auto time = parse_quantity(value, times);
        model.alpha = time.value_or(0);
        return time.has_value();
    }
    if (name == "further" || name == "streamed") {
        constexpr std::array share = {Unit{"", 1.0}};
        const auto number = parse_quantity(value, share);
        (name == "further" ? model.further : model.streamed) = number.value_or(0);
        return number.has_value() && *number <= 1;
    }
    const auto rate = parse_quantity(value, rates);
    if (!rate || (name != "beta" && name != "gamma")) return false;
    (name == "beta" ? model.beta : model.gamma) = 1 / *rate;
    return true;
}

}  // namespace

Outcome<Model> Model::parse(std::string_view text) {
    if (text == "tcp") return tcp_model();
    if (text == "rdma") return rdma_model();
    if (text == "shared_memory") return shared_memory_model();
    Model model;
    std::string_view rest = text;
    bool good = true;
    for (bool last = false; good && !last;) {
        const auto comma = rest.find(',');
        last = comma == std::string_view::npos;
        good = set_cost(rest.substr(0, comma), model);
        if (!last) rest.remove_prefix(comma + 1);
    }
    if (!good || !(model.alpha > 0) || !(model.beta > 0) || !(model.gamma > 0)) {
        return fail(
            MPIB_ERROR_INVALID_ARGUMENT,
            fmt::format("MPI_BRIDGE_MODEL or --model \"{}\" is not a model of a network; expected "
                        "shared_memory, rdma, tcp, or costs such as "
                        "\"alpha=20us,beta=1.2GB/s,gamma=8GB/s\"",
                        text));
    }
    return model;
}

std::string Model::text() const {
    auto text = fmt::format("alpha={},beta={},gamma={}", quantity(alpha, times),
                            quantity(1 / beta, rates), quantity(1 / gamma, rates));
    if (further != further_message) text += fmt::format(",further={:.6g}", further);
    if (streamed != further_message) text += fmt::format(",streamed={:.6g}", streamed);
    return text;
}

Model Model::rounded() const {
    constexpr double nanosecond = 1e-9;
    return {rounded_to_power_of_two(alpha / nanosecond) * nanosecond,
            1 / rounded_to_power_of_two(1 / beta), 1 / rounded_to_power_of_two(1 / gamma),
            rounded_to_power_of_two(further), rounded_to_power_of_two(streamed)};
}

Model tcp_model() {
    return {20e-6, 1 / 1.2e9, 1 / 8e9};
}

Model rdma_model() {
    return {2e-6, 1 / 12e9, 1 / 8e9};
}

Model shared_memory_model() {
    return {0.5e-6, 1 / 8e9, 1 / 16e9};
}

}  // namespace mpi_bridge
