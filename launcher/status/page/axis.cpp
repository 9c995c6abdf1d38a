// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/page/axis.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace batchai::status {

namespace {

constexpr double minute = 60;
constexpr double hour = 60 * minute;
constexpr double day = 24 * hour;
constexpr std::array steps{0.1,         0.2,         0.5,         1.0,     2.0,        5.0,
                           10.0,        20.0,        30.0,        minute,  2 * minute, 5 * minute,
                           10 * minute, 20 * minute, 30 * minute, hour,    2 * hour,   3 * hour,
                           6 * hour,    12 * hour,   day,         2 * day, 7 * day,    30 * day};

std::string text_of(double seconds, double step) {
    if (seconds == 0) return "0";
    if (step < 1) return fmt::format("{:.1f} s", seconds);
    const auto whole = std::llround(seconds);
    if (step < minute && whole < 60) return fmt::format("{} s", whole);
    if (step < minute) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
    if (step < hour && whole < 3600) return fmt::format("{} min", whole / 60);
    if (step < hour) return fmt::format("{}:{:02} h", whole / 3600, whole % 3600 / 60);
    if (step < day) return fmt::format("{} h", whole / 3600);
    return fmt::format("{} d", whole / 86400);
}

}  // namespace

std::vector<Tick> ticks_of(double seconds, int most) {
    std::vector<Tick> out;
    if (!std::isfinite(seconds) || seconds < 0) seconds = 0;
    const double least = seconds / std::max(1, most);
    const auto* const found = std::lower_bound(steps.begin(), steps.end(), least);
    double step = found == steps.end() ? std::ceil(least / day) * day : *found;
    step = std::max(step, steps.front());
    for (int i = 0; i <= most && i * step <= seconds; ++i)
        out.push_back({i * step, text_of(i * step, step)});
    return out;
}

double round_up(double number) {
    if (!std::isfinite(number) || number <= 0) return 1;
    const double power = std::pow(10.0, std::floor(std::log10(number)));
    for (const double factor : {1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0}) {
        if (factor * power >= number * (1 - 1e-9)) return factor * power;
    }
    return 10 * power;
}

}  // namespace batchai::status
