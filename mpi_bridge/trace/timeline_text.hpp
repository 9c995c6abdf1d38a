// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/deadline.hpp"
#include "trace/event_queue.hpp"

namespace mpi_bridge {

// The place and time at which a timeline was started.
struct TimelineOrigin {
    int rank = 0;
    int size = 1;
    std::string host;
    // Identifies the running kernel: ranks with the same one share a steady clock. May be empty.
    std::string boot;
    Clock::time_point steady;      // the zero of the timeline's time stamps
    std::int64_t realtime_ns = 0;  // since 1970-01-01 UTC, at that moment
};

// Turns events into the text of Chrome's trace format: objects, one per line, separated by commas.
// docs/timeline.md describes them. Keeps track of what each row has open and repairs the nesting
// where events are missing: what is open inside an activity that ends is ended first, and an end
// whose beginning is missing is left out. An activity that never ends stays open, because it was
// still under way at the end. Pure; one thread at a time may call.
class TimelineText {
  public:
    explicit TimelineText(TimelineOrigin origin) : origin_(std::move(origin)) {}

    // Adds what tells viewers and the merge tool whose timeline this is. Must be called first.
    void add_header();
    void add(const Event& event);
    // Adds a mark that this many events are missing around this moment.
    void add_dropped(std::uint64_t count, Clock::time_point time);

    // What has been added since the last clear(); "" if nothing was.
    [[nodiscard]] const std::string& text() const { return text_; }
    void clear() { text_.clear(); }

  private:
    struct Open {
        Phase phase;
        mpib_kind kind;
    };
    struct Row {
        unsigned number = 0;
        std::vector<Open> open;
    };

    Row& row_of(const Event& event);
    void name_row(const Row& row, std::string_view title);
    void begin(const Event& event);
    void end(const Event& event);
    void close_innermost(Row& row, Clock::time_point time, bool ok);

    // Writes the beginning of an object; `type` is the format's one letter.
    void head(char type, unsigned row, Clock::time_point time, std::string_view name);
    void metadata(std::string_view name, unsigned row, std::string_view key,
                  std::string_view value);
    void details(const Details& details);
    void microseconds(std::chrono::nanoseconds time);

    TimelineOrigin origin_;
    std::unordered_map<std::string, Row> rows_;
    unsigned next_row_ = 1;
    std::string key_;
    std::string text_;
};

}  // namespace mpi_bridge
