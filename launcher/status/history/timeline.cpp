// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/history/timeline.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/json.hpp"
#include "base/text.hpp"

namespace batchai::status {

namespace {

constexpr std::size_t longest_line = 64UL << 10U;
constexpr std::size_t most_open = 16;       // activities inside one another
constexpr std::size_t most_steps = 200000;  // of a rank
constexpr double longest_time = 1e15;       // microseconds: some thirty years
// Far more than any job has; a greater number is not one of a rank.
constexpr int most_ranks = 1 << 20;

bool skip(std::string_view& text, std::string_view word) {
    if (!text.starts_with(word)) return false;
    text.remove_prefix(word.size());
    return true;
}

template <typename Number>
bool number(std::string_view& text, Number& into) {
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), into);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
    return true;
}

// "allreduce.noname.17" becomes "allreduce.noname.".
std::string_view without_number(std::string_view name) {
    constexpr std::string_view mark = ".noname.";
    const auto at = name.rfind(mark);
    if (at == std::string_view::npos) return name;
    const auto digits = name.substr(at + mark.size());
    const bool all = std::all_of(digits.begin(), digits.end(),
                                 [](unsigned char byte) { return std::isdigit(byte) != 0; });
    return all ? name.substr(0, at + mark.size()) : name;
}

bool is_transfer(std::string_view activity) {
    return activity.starts_with("SHM_") || activity.starts_with("UCX_") ||
           activity.starts_with("NCCL_");
}

enum Kind : char { other = 'o', transfer = 't', waits_for_data = 'w' };

char kind_of(std::string_view activity) {
    if (is_transfer(activity)) return transfer;
    if (activity == "WAIT_FOR_DATA") return waits_for_data;
    return other;
}

}  // namespace

// An event as mpi_bridge writes it: the keys are always in this order.
struct TimelineParser::Line {
    char type = 0;
    unsigned row = 0;
    double time = 0;        // microseconds
    std::string_view name;  // as in the file, that is, with its escapes
    std::string_view rest;
    std::string_view text;  // the whole object

    static std::optional<Line> in(std::string_view text) {
        Line line;
        const std::size_t begin = text.find('{');
        const std::size_t end = text.rfind('}');
        if (begin == std::string_view::npos || end == std::string_view::npos || end < begin)
            return std::nullopt;
        line.text = text.substr(begin, end - begin + 1);
        std::string_view left = line.text;
        int rank = 0;
        if (!skip(left, R"({"ph":")") || left.empty()) return std::nullopt;
        line.type = left.front();
        left.remove_prefix(1);
        if (!skip(left, R"(","pid":)") || !number(left, rank) || !skip(left, R"(,"tid":)") ||
            !number(left, line.row) || !skip(left, R"(,"ts":)") || !number(left, line.time) ||
            !std::isfinite(line.time) || std::abs(line.time) > longest_time)
            return std::nullopt;
        if (skip(left, R"(,"name":")")) {
            std::size_t at = 0;
            while (at < left.size() && left[at] != '"')
                at += left[at] == '\\' ? 2U : 1U;
            if (at >= left.size()) return std::nullopt;
            line.name = left.substr(0, at);
            left.remove_prefix(at + 1);
        }
        line.rest = left;
        return line;
    }
};

void TimelineParser::read(std::string_view text) {
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        // The last line has no newline until another event follows.
        const std::string_view line = text.substr(0, end);
        if (line.size() <= longest_line) read_line(line);
        if (end == std::string_view::npos) return;
        text.remove_prefix(end + 1);
    }
}

void TimelineParser::gap() {
    out_.whole = false;
    for (auto& [number, row] : rows_) {
        row.depth = 0;
        row.open.clear();
        row.since.clear();
        row.pending = false;
    }
    step_ = {};
    previous_end_.reset();
    pending_ = 0;
    moving_ = 0;
}

void TimelineParser::read_line(std::string_view text) {
    const auto line = Line::in(text);
    if (!line) return;
    switch (line->type) {
        case 'M':
            read_metadata(*line);
            return;
        case 'B':
            begin(*line, rows_[line->row]);
            return;
        case 'E':
            end(*line, rows_[line->row]);
            return;
        case 'X': {
            std::string_view left = line->rest;
            double duration = 0;
            if (is_transfer(line->name) && skip(left, R"(,"dur":)") && number(left, duration) &&
                duration > 0 && duration < longest_time)
                step_.transfer += duration;
            return;
        }
        case 'i':
            if (line->name == "events dropped") ++out_.dropped;
            return;
        default:
            return;
    }
}

void TimelineParser::read_metadata(const Line& line) {
    if (line.name != "clock" && line.name != "thread_name") return;
    const auto value = base::parse_json(line.text, "timeline");
    if (!value) return;
    const base::Value& arguments = (*value)["args"];
    if (line.name == "thread_name") {
        const std::string* const name = arguments["name"].string();
        if (name == nullptr) return;
        Row& row = rows_[line.row];
        row.engine =
            *name == "engine" || name->starts_with("engine (") || name->ends_with(" (device)");
        row.key = key_of(*name);
        return;
    }
    const auto* const realtime = arguments["realtime_ns"].integer();
    const auto* const rank = arguments["rank"].integer();
    const auto* const host = arguments["host"].string();
    // A time that base::Time cannot have would overflow.
    constexpr std::int64_t latest = 4102444800LL * 1000000000LL;  // the year 2100
    if (realtime == nullptr || rank == nullptr || *realtime < 0 || *realtime > latest ||
        *rank < 0 || *rank > most_ranks)
        return;
    has_clock_ = true;
    realtime_microseconds_ = *realtime / 1000;
    out_.rank = static_cast<int>(*rank);
    if (host != nullptr) out_.host = *host;
}

std::size_t TimelineParser::key_of(std::string_view name) {
    const auto known = keys_.try_emplace(std::string(without_number(name)), keys_.size() + 1);
    return known.first->second;
}

void TimelineParser::begin(const Line& line, Row& row) {
    if (row.engine) return;
    if (row.depth == 0) {
        row.negotiates = line.name.starts_with("NEGOTIATE_");
        if (!row.pending) submitted(row, line.time);
    } else if (row.open.size() < most_open) {
        row.open.push_back(kind_of(line.name));
        row.since.push_back(line.time);
        if (row.open.back() == transfer && moving_++ == 0) moving_since_ = line.time;
    }
    take_bytes(line, row);
    ++row.depth;
}

// Only the first operations of a row say how large they are, until there is a plan of them.
void TimelineParser::take_bytes(const Line& line, Row& row) {
    std::string_view left = line.rest;
    double bytes = 0;
    if (row.bytes > 0 || !skip(left, R"(,"args":{"bytes":)") || !number(left, bytes) || bytes <= 0)
        return;
    row.bytes = bytes;
    step_.bytes += bytes;
}

void TimelineParser::end(const Line& line, Row& row) {
    if (row.engine || row.depth == 0) return;
    --row.depth;
    if (row.depth == 0) {
        moving_ -= static_cast<int>(std::count(row.open.begin(), row.open.end(), transfer));
        row.open.clear();
        row.since.clear();
        if (!row.negotiates && row.pending) ended(row, line.time);
        return;
    }
    if (row.open.empty() || row.open.size() < static_cast<std::size_t>(row.depth)) return;
    const char kind = row.open.back();
    row.open.pop_back();
    row.since.pop_back();
    if (kind == transfer && --moving_ == 0)
        step_.transfer += std::max(0.0, line.time - moving_since_);
    if (kind == waits_for_data) {
        row.ready = std::max(row.ready, line.time);
        last_ready_ = std::max(last_ready_, row.ready);
    }
}

void TimelineParser::submitted(Row& row, double time) {
    if (row.key == 0) row.key = key_of("");
    if (step_.keys.contains(row.key)) close_step();
    step_.keys.insert(row.key);
    step_.bytes += row.bytes;
    row.pending = true;
    row.ready = time;
    last_ready_ = std::max(last_ready_, time);
    ++pending_;
}

void TimelineParser::ended(Row& row, double time) {
    row.pending = false;
    pending_ = std::max(0, pending_ - 1);
    step_.any_end = true;
    step_.last_end = std::max(step_.last_end, time);
    if (pending_ > 0) return;
    step_.last_pause = std::max(0.0, time - last_ready_);
    step_.longest_pause = std::max(step_.longest_pause, step_.last_pause);
}

void TimelineParser::close_step() {
    Step closed = std::exchange(step_, {});
    if (!closed.any_end) return;
    const auto previous = std::exchange(previous_end_, closed.last_end);
    if (!previous || closed.last_end <= *previous || out_.steps.size() >= most_steps) return;
    constexpr double second = 1e6;
    const double total = closed.last_end - *previous;
    double waits = closed.longest_pause;
    if (closed.last_pause < closed.longest_pause) waits += closed.last_pause;
    out_.steps.push_back({.begin = at(*previous),
                          .total = total / second,
                          .own = std::max(0.0, total - waits) / second,
                          .transfer = std::min(closed.transfer, total) / second,
                          .bytes = closed.bytes});
}

base::Time TimelineParser::at(double microseconds) const {
    return base::Time(std::chrono::microseconds(realtime_microseconds_ +
                                                static_cast<std::int64_t>(microseconds)));
}

std::optional<RankTimeline> TimelineParser::take() {
    if (!has_clock_) return std::nullopt;
    close_step();
    return std::move(out_);
}

}  // namespace batchai::status
