// SPDX-License-Identifier: GPL-2.0-or-later
#include "job/schema/duration.hpp"

#include <charconv>
#include <cstdint>

#include <fmt/format.h>

#include "base/text.hpp"

namespace batchai::job {

namespace {

// Bounds every part, so that no sum of them overflows.
constexpr std::int64_t largest_part = 1'000'000'000;

constexpr std::int64_t minute = 60;
constexpr std::int64_t hour = 60 * minute;
constexpr std::int64_t day = 24 * hour;

// Takes digits from the front of `text`.
std::optional<std::int64_t> take_number(std::string_view& text) {
    std::int64_t value = 0;
    if (text.starts_with('-')) return std::nullopt;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value > largest_part) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
}

bool take(std::string_view& text, std::string_view word) {
    if (!text.starts_with(word)) return false;
    text.remove_prefix(word.size());
    return true;
}

// "H:MM:SS", all of the text; minutes and seconds below 60.
std::optional<std::int64_t> clock_time(std::string_view text) {
    const auto hours = take_number(text);
    if (!hours || !take(text, ":") || text.size() != 5) return std::nullopt;
    const auto minutes = take_number(text);
    if (!minutes || !take(text, ":") || text.size() != 2) return std::nullopt;
    const auto seconds = take_number(text);
    if (!seconds || !text.empty() || *minutes > 59 || *seconds > 59) return std::nullopt;
    return *hours * hour + *minutes * minute + *seconds;
}

// What follows the "P": each unit at most once, in falling order.
std::optional<std::int64_t> iso8601(std::string_view text) {
    struct Unit {
        char letter;
        bool after_t;
        std::int64_t seconds;
    };
    constexpr Unit units[] = {{'W', false, 7 * day},
                              {'D', false, day},
                              {'H', true, hour},
                              {'M', true, minute},
                              {'S', true, 1}};
    std::int64_t total = 0;
    bool in_time = false;
    bool any = false;
    for (const Unit& unit : units) {
        if (unit.after_t && !in_time) {
            if (!take(text, "T")) break;
            in_time = true;
            any = false;
        }
        std::string_view rest = text;
        const auto number = take_number(rest);
        if (!number || !rest.starts_with(unit.letter)) continue;
        text = rest.substr(1);
        total += *number * unit.seconds;
        any = true;
    }
    if (!any || !text.empty()) return std::nullopt;
    return total;
}

std::optional<std::int64_t> seconds_in(std::string_view text) {
    if (take(text, "P")) return iso8601(text);
    if (const auto time = clock_time(text)) return time;
    const auto days = take_number(text);
    if (!days) return std::nullopt;
    const bool separated = take(text, ".") || take(text, " days, ") || take(text, " day, ");
    if (!separated) return std::nullopt;
    const auto within_day = clock_time(text);
    if (!within_day || *within_day >= day) return std::nullopt;
    return *days * day + *within_day;
}

}  // namespace

std::optional<std::chrono::seconds> parse_duration(std::string_view text) {
    const auto seconds = seconds_in(base::trim(text));
    if (!seconds) return std::nullopt;
    return std::chrono::seconds(*seconds);
}

std::string format_duration(std::chrono::seconds duration) {
    const std::int64_t total = duration.count();
    const std::int64_t days = total / day;
    const std::string time =
        fmt::format("{}:{:02}:{:02}", total % day / hour, total % hour / minute, total % minute);
    if (days == 0) return time;
    return fmt::format("{} day{}, {}", days, days == 1 ? "" : "s", time);
}

}  // namespace batchai::job
