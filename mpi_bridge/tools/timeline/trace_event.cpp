// SPDX-License-Identifier: Apache-2.0
#include "tools/timeline/trace_event.hpp"

#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace mpi_bridge::timeline_tool {
namespace {

constexpr std::int64_t known_version = 1;

const jsoncons::ojson* find(const jsoncons::ojson& object, const char* key) {
    if (!object.is_object()) return nullptr;
    const auto member = object.find(key);
    return member == object.object_range().end() ? nullptr : &member->value();
}

const jsoncons::ojson* find_argument(const jsoncons::ojson& object, const char* key) {
    const auto* arguments = find(object, "args");
    return arguments == nullptr ? nullptr : find(*arguments, key);
}

}  // namespace

std::optional<double> TraceEvent::duration() const {
    const auto* value = find(object, "dur");
    if (value == nullptr || !value->is_number()) return std::nullopt;
    return value->as<double>();
}

std::optional<std::int64_t> TraceEvent::number(const char* key) const {
    const auto* value = find_argument(object, key);
    if (value == nullptr || !value->is<std::int64_t>()) return std::nullopt;
    return value->as<std::int64_t>();
}

std::optional<std::string> TraceEvent::text(const char* key) const {
    const auto* value = find_argument(object, key);
    if (value == nullptr || !value->is_string()) return std::nullopt;
    return value->as<std::string>();
}

Outcome<TraceEvent> parse_event(const EventReader& reader, const EventReader::RawEvent& raw) {
    const auto fault = [&](std::string_view what) {
        return tl::unexpected<Failure>(reader.at(raw.offset, what));
    };
    TraceEvent event;
    try {
        event.object = jsoncons::ojson::parse(raw.text);
    } catch (const jsoncons::ser_error& error) {
        return fault(fmt::format("this event is not JSON: {}", error.code().message()));
    }
    const auto* type = find(event.object, "ph");
    const auto* rank = find(event.object, "pid");
    const auto* row = find(event.object, "tid");
    const auto* time = find(event.object, "ts");
    const bool usable = type != nullptr && type->is_string() && rank != nullptr &&
                        rank->is<int>() && row != nullptr && row->is<std::int64_t>() &&
                        time != nullptr && time->is_number();
    if (!usable || type->as<std::string_view>().size() != 1) {
        return fault("this event lacks one of ph, pid, tid and ts");
    }
    event.type = type->as<std::string_view>().front();
    event.rank = rank->as<int>();
    event.row = row->as<std::int64_t>();
    event.time = time->as<double>();
    if (const auto* name = find(event.object, "name"); name != nullptr && name->is_string()) {
        event.name = name->as<std::string>();
    }
    return event;
}

Outcome<std::optional<ClockEvent>> clock_of(const TraceEvent& event) {
    if (event.type != 'M' || event.name != "clock") return std::nullopt;
    const auto fault = [](std::string text) {
        return fail(MPIB_ERROR_INVALID_ARGUMENT, std::move(text));
    };
    const auto version = event.number("version");
    if (version && *version > known_version) {
        return fault(fmt::format("a timeline of version {}, newer than this tool's {}", *version,
                                 known_version));
    }
    const auto rank = event.number("rank");
    const auto size = event.number("size");
    const auto host = event.text("host");
    const auto boot = event.text("boot");
    const auto steady = event.number("steady_ns");
    const auto realtime = event.number("realtime_ns");
    if (!version || !rank || !size || !host || !boot || !steady || !realtime) {
        return fault(
            "the event \"clock\" lacks one of version, rank, size, host, boot, steady_ns and "
            "realtime_ns");
    }
    return ClockEvent{
        static_cast<int>(*rank), static_cast<int>(*size), *host, *boot, *steady, *realtime};
}

}  // namespace mpi_bridge::timeline_tool
