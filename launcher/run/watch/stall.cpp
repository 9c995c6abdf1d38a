// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/watch/stall.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace batchai::run {

namespace {

using std::chrono::seconds;

// Most jobs give a sign of life all the time, so that nobody has to look at what the nodes note.
constexpr int part_before_looks = 4;

struct StallWords {
    std::string_view begin;
    std::string_view end;
    std::string_view key;
};

StallWords words_of(Stalled what) {
    switch (what) {
        case Stalled::silence:
            return {"the ranks have printed nothing and done nothing",
                    "the ranks print or do something again", "watch.silence"};
        case Stalled::progress:
            return {"the ranks have printed no line of progress",
                    "the ranks print lines of progress again", "watch.progress"};
        case Stalled::gpus:
            break;
    }
    return {"the job's GPUs have done nothing", "the job's GPUs are busy again", "watch.idleGpu"};
}

}  // namespace

StallClock::StallClock(const plan::Watch& watch, Clock::time_point now)
    : watch_(watch),
      began_(now),
      printed_(now),
      worked_(now),
      gpus_worked_(now),
      looks_since_(now) {}

StallClock::Clock::duration StallClock::limit_of(Stalled what) const {
    switch (what) {
        case Stalled::silence:
            return seconds(watch_.silence);
        case Stalled::progress:
            if (watch_.pattern.empty()) return seconds(0);
            return seconds(progressed_ ? watch_.within : watch_.first);
        case Stalled::gpus:
            break;
    }
    return seconds(watch_.idle_gpu);
}

StallClock::Clock::time_point StallClock::last_sign(Stalled what) const {
    switch (what) {
        case Stalled::silence:
            return std::max(printed_, worked_);
        case Stalled::progress:
            return progressed_.value_or(began_);
        case Stalled::gpus:
            break;
    }
    return gpus_worked_;
}

StallClock::Clock::duration StallClock::time_of(Stalled what, Clock::time_point now) const {
    if (what == Stalled::progress) return now - last_sign(what);
    return now - std::max(last_sign(what), looks_since_);
}

bool StallClock::stands_still(Stalled what, Clock::time_point now) const {
    const auto limit = limit_of(what);
    return limit.count() > 0 && time_of(what, now) >= limit;
}

bool StallClock::needs_work(Clock::time_point now) const {
    for (const Stalled what : {Stalled::silence, Stalled::gpus}) {
        const auto limit = limit_of(what);
        if (limit.count() > 0 && now - last_sign(what) >= limit / part_before_looks) return true;
    }
    return false;
}

std::optional<StallChange> StallClock::poll(Clock::time_point now) {
    for (const Stalled what : {Stalled::silence, Stalled::progress, Stalled::gpus}) {
        bool& told = told_.at(static_cast<std::size_t>(what));
        const bool still = stands_still(what, now);
        if (still == told) continue;
        told = still;
        return StallChange{.what = what,
                           .begins = still,
                           .since = std::chrono::floor<seconds>(now - last_sign(what))};
    }
    return std::nullopt;
}

std::string text_of(const StallChange& change) {
    const StallWords words = words_of(change.what);
    if (!change.begins) return fmt::format("{} (\"{}\")", words.end, words.key);
    return fmt::format("{} for {} s (\"{}\")", words.begin, change.since.count(), words.key);
}

}  // namespace batchai::run
