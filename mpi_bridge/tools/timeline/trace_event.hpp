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
    jsoncons::ojson object;  // all of it, its members in their order

    [[nodiscard]] std::optional<double> duration() const;  // "dur"
    // Members of "args"; nullopt when they are not there or something else.
    [[nodiscard]] std::optional<std::int64_t> number(const char* key) const;
    [[nodiscard]] std::optional<std::string> text(const char* key) const;
};

// A failure names file and byte.
[[nodiscard]] Outcome<TraceEvent> parse_event(const EventReader& reader,
                                              const EventReader::RawEvent& raw);

// The first event of a rank's file: whose it is, and where its zero lies.
struct ClockEvent {
    int rank = 0;
    int size = 1;
    std::string host;
    std::string boot;
    std::int64_t steady_ns = 0;
    std::int64_t realtime_ns = 0;
};
// nullopt when the event is another. A failure names what is missing.
[[nodiscard]] Outcome<std::optional<ClockEvent>> clock_of(const TraceEvent& event);

}  // namespace mpi_bridge::timeline_tool
