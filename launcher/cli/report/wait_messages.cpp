// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/report/wait_messages.hpp"

#include <fmt/format.h>

#include "job/schema/duration.hpp"

namespace batchai::cli {
namespace {

std::string text(const Value& value) {
    const auto* string = value.string();
    return string == nullptr ? "" : *string;
}

}  // namespace

std::string python_time(base::Time time) {
    auto out = base::to_iso8601(time);
    out[out.find('T')] = ' ';
    return out;
}

std::string python_duration(base::Time::duration duration) {
    if (duration.count() < 0) duration = {};
    const auto seconds = std::chrono::floor<std::chrono::seconds>(duration);
    const auto fraction = (duration - seconds).count();
    auto out = job::format_duration(seconds);
    if (fraction != 0) out += fmt::format(".{:06}", fraction);
    return out;
}

std::string error_lines(const Value& errors) {
    std::string out;
    if (errors.array() == nullptr) return out;
    for (const auto& error : *errors.array()) {
        out += fmt::format("Error message: {}\n", text(error["message"]));
        const auto* details = error["details"].array();
        if (details == nullptr || details->empty()) continue;
        out += "Details:\n";
        for (const auto& detail : *details)
            out += fmt::format("  {}: {}\n", text(detail["name"]), text(detail["value"]));
    }
    return out;
}

}  // namespace batchai::cli
