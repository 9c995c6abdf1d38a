// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/timestamp.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include <fmt/format.h>

#include "base/text.hpp"

namespace batchai::base {

using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::seconds;

Time now() {
    return std::chrono::time_point_cast<microseconds>(std::chrono::system_clock::now());
}

double seconds_between(Time from, Time to) {
    return std::max(0.0, std::chrono::duration<double>(to - from).count());
}

namespace {

std::string date_and_time(std::time_t time) {
    std::tm parts{};
    gmtime_r(&time, &parts);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", parts.tm_year + 1900,
                       parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace

std::string to_iso8601(Time time) {
    const microseconds since = time.time_since_epoch();
    const seconds whole = std::chrono::floor<seconds>(since);
    return fmt::format("{}.{:06}+00:00", date_and_time(whole.count()), (since - whole).count());
}

std::string to_iso8601_seconds(Time time) {
    const seconds whole = std::chrono::floor<seconds>(time.time_since_epoch());
    return date_and_time(whole.count()) + "+00:00";
}

std::optional<Time> from_iso8601(std::string_view text) {
    // Reads "2018-06-21T17:15:18" by hand: sscanf takes a twelfth of the time of a long list.
    constexpr std::string_view form = "dddd-dd-ddTdd:dd:dd";
    std::array<int, 6> numbers{};
    if (text.size() < form.size()) return std::nullopt;
    for (std::size_t i = 0, number = 0; i < form.size(); ++i) {
        const bool digit = is_digit(text[i]);
        if (form[i] == 'd' ? !digit : text[i] != form[i]) return std::nullopt;
        if (digit)
            numbers.at(number) = numbers.at(number) * 10 + (text[i] - '0');
        else
            ++number;
    }
    std::tm parts{};
    parts.tm_year = numbers[0] - 1900;
    parts.tm_mon = numbers[1] - 1;
    parts.tm_mday = numbers[2];
    parts.tm_hour = numbers[3];
    parts.tm_min = numbers[4];
    parts.tm_sec = numbers[5];
    Time time{duration_cast<microseconds>(seconds(timegm(&parts)))};
    std::string_view rest = text.substr(form.size());
    if (!rest.empty() && rest.front() == '.') {
        std::int64_t fraction = 0;
        std::int64_t unit = 100000;
        rest.remove_prefix(1);
        while (!rest.empty() && is_digit(rest.front())) {
            fraction += (rest.front() - '0') * unit;
            unit /= 10;
            rest.remove_prefix(1);
        }
        time += microseconds(fraction);
    }
    if (!rest.empty() && rest != "+00:00" && rest != "Z") return std::nullopt;
    return time;
}

}  // namespace batchai::base
