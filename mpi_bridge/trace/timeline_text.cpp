// SPDX-License-Identifier: Apache-2.0
#include "trace/timeline_text.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include <fmt/format.h>

#include "reduce/datatypes.hpp"
#include "trace/quoting.hpp"

namespace mpi_bridge {
namespace {

// To be increased when a reader of older files would misunderstand newer ones.
constexpr int format_version = 1;

constexpr unsigned engine_row = 0;

std::string title_of(const Event& event) {
    std::string title(event.text.empty() || event.type == EventType::mark ? "engine" : event.text);
    if (event.process_set != MPIB_WORLD) {
        title += fmt::format(" (process set {})", event.process_set);
    }
    if (event.type == EventType::device) title += " (device)";
    return title;
}

bool outermost(Phase phase) {
    return phase == Phase::negotiate || phase == Phase::operation;
}

}  // namespace

void TimelineText::microseconds(std::chrono::nanoseconds time) {
    // What began before the timeline did, such as work on a device, is shown at its start.
    const auto nanoseconds = std::max<std::int64_t>(time.count(), 0);
    fmt::format_to(std::back_inserter(text_), "{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

void TimelineText::head(char type, unsigned row, Clock::time_point time, std::string_view name) {
    if (!text_.empty()) text_ += ",\n";
    fmt::format_to(std::back_inserter(text_), R"({{"ph":"{}","pid":{},"tid":{},"ts":)", type,
                   origin_.rank, row);
    microseconds(time - origin_.steady);
    if (!name.empty()) {
        text_ += R"(,"name":)";
        append_json_string(text_, name);
    }
}

// `value` is JSON.
void TimelineText::metadata(std::string_view name, unsigned row, std::string_view key,
                            std::string_view value) {
    head('M', row, origin_.steady, name);
    fmt::format_to(std::back_inserter(text_), R"(,"args":{{"{}":{}}}}})", key, value);
}

void TimelineText::details(const Details& details) {
    char before = '{';
    const auto number = [&](std::string_view key, std::int64_t value) {
        if (value < 0) return;
        fmt::format_to(std::back_inserter(text_), R"({}"{}":{})", before, key, value);
        before = ',';
    };
    text_ += R"(,"args":)";
    number("bytes", details.bytes);
    if (details.datatype >= 0) {
        fmt::format_to(std::back_inserter(text_), R"({}"dtype":"{}")", before,
                       datatype_word(details.datatype));
        before = ',';
    }
    number("bucket", details.bucket);
    number("epoch", details.epoch);
    text_ += before == '{' ? "{}" : "}";
}

void TimelineText::add_header() {
    const auto quoted = [](std::string_view text) {
        std::string json;
        append_json_string(json, text);
        return json;
    };
    // The clock comes first, because the merge tool looks for it there.
    head('M', engine_row, origin_.steady, "clock");
    fmt::format_to(
        std::back_inserter(text_),
        R"(,"args":{{"version":{},"rank":{},"size":{},"host":{},"boot":{},"steady_ns":{},)"
        R"("realtime_ns":{}}}}})",
        format_version, origin_.rank, origin_.size, quoted(origin_.host), quoted(origin_.boot),
        std::chrono::nanoseconds(origin_.steady.time_since_epoch()).count(), origin_.realtime_ns);
    metadata("process_name", engine_row, "name",
             quoted(fmt::format("rank {} ({})", origin_.rank, origin_.host)));
    metadata("process_sort_index", engine_row, "sort_index", std::to_string(origin_.rank));
}

void TimelineText::name_row(const Row& row, std::string_view title) {
    std::string json;
    append_json_string(json, title);
    metadata("thread_name", row.number, "name", json);
    metadata("thread_sort_index", row.number, "sort_index", std::to_string(row.number));
}

TimelineText::Row& TimelineText::row_of(const Event& event) {
    // Unlike the title, the key cannot be the same for two rows.
    const bool engine = event.text.empty() || event.type == EventType::mark;
    key_.clear();
    fmt::format_to(std::back_inserter(key_), "{}{} ", event.type == EventType::device ? 'd' : 'h',
                   event.process_set);
    if (!engine) key_ += event.text;
    const auto found = rows_.find(key_);
    if (found != rows_.end()) return found->second;
    const bool own_row_of_engine =
        engine && event.process_set == MPIB_WORLD && event.type != EventType::device;
    Row& row = rows_[key_];
    row.number = own_row_of_engine ? engine_row : next_row_++;
    name_row(row, title_of(event));
    return row;
}

void TimelineText::close_innermost(Row& row, Clock::time_point time, bool ok) {
    const Open innermost = row.open.back();
    row.open.pop_back();
    head('E', row.number, time, activity_name(innermost.phase, innermost.kind));
    text_ += ok ? "}" : R"(,"args":{"failed":true}})";
}

void TimelineText::begin(const Event& event) {
    Row& row = row_of(event);
    if (outermost(event.phase)) {
        while (!row.open.empty())
            close_innermost(row, event.time, true);
    }
    row.open.push_back({event.phase, event.kind});
    head('B', row.number, event.time, activity_name(event.phase, event.kind));
    details(event.details);
    text_ += '}';
}

void TimelineText::end(const Event& event) {
    Row& row = row_of(event);
    const auto begun = std::find_if(row.open.rbegin(), row.open.rend(), [&](const Open& open) {
        return open.phase == event.phase && open.kind == event.kind;
    });
    if (begun == row.open.rend()) return;
    const auto left = static_cast<std::size_t>(row.open.rend() - begun) - 1;
    while (row.open.size() > left)
        close_innermost(row, event.time, event.ok);
}

void TimelineText::add(const Event& event) {
    switch (event.type) {
        case EventType::begin:
            begin(event);
            return;
        case EventType::end:
            end(event);
            return;
        case EventType::tick:
            head('i', row_of(event).number, event.time, std::to_string(event.rank));
            fmt::format_to(std::back_inserter(text_), R"(,"s":"t","args":{{"rank":{}}}}})",
                           event.rank);
            return;
        case EventType::mark:
            head('i', row_of(event).number, event.time, event.text);
            text_ += R"(,"s":"p")";
            details(event.details);
            text_ += '}';
            return;
        case EventType::device:
            head('X', row_of(event).number, event.time, activity_name(event.phase, event.kind));
            text_ += R"(,"dur":)";
            microseconds(event.duration);
            details(event.details);
            text_ += '}';
            return;
    }
}

void TimelineText::add_dropped(std::uint64_t count, Clock::time_point time) {
    Event engine;
    engine.type = EventType::mark;
    head('i', row_of(engine).number, time, "events dropped");
    fmt::format_to(std::back_inserter(text_), R"(,"s":"p","args":{{"count":{}}}}})", count);
}

}  // namespace mpi_bridge
