// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <jsoncons/json.hpp>

#include "core/failure.hpp"
#include "tools/timeline/event_reader.hpp"

namespace mpi_bridge::timeline_tool {

// An event with the members that every event of a timeline has. Times are microseconds.
struct TraceEvent {
    char type = 0;  // "ph"
    int rank = 0;   // "pid"
    std::int64_t row = 0;
    double time = 0;
    std::string name;
    jsoncons::ojson object;  // the whole event, with its members in their order

    [[nodiscard]] std::optional<double> duration() const;  // "dur"
    // Members of "args"; nullopt when they are missing or of another type.
    [[nodiscard]] std::optional<std::int64_t> number(const char* key) const;
    [[nodiscard]] std::optional<std::string> text(const char* key) const;
};

// A failure names the file and the byte.
[[nodiscard]] Outcome<TraceEvent> parse_event(const EventReader& reader,
                                              const EventReader::RawEvent& raw);

// The first event of a rank's file: which rank it belongs to, and where the zero of its times lies.
struct ClockEvent {
    int rank = 0;
    int size = 1;
    std::string host;
    std::string boot;
    std::int64_t steady_ns = 0;
    std::int64_t realtime_ns = 0;
};
// Returns nullopt when the event is of another kind. A failure names what is missing.
[[nodiscard]] Outcome<std::optional<ClockEvent>> clock_of(const TraceEvent& event);

}  // namespace mpi_bridge::timeline_tool
