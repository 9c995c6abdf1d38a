// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/watch/stall.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"

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
        case Stalled::slow_rank:
            return {"", "no rank is that much slower than the others any more", "watch.slowRank"};
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

void StallClock::leave_out(Clock::duration time) {
    for (Clock::time_point* const sign :
         {&began_, &printed_, &worked_, &gpus_worked_, &looks_since_})
        *sign += time;
    if (progressed_) *progressed_ += time;
}

StallClock::Clock::duration StallClock::limit_of(Stalled what) const {
    switch (what) {
        case Stalled::silence:
            return seconds(watch_.silence);
        case Stalled::progress:
            if (watch_.pattern.empty()) return seconds(0);
            return seconds(progressed_ ? watch_.within : watch_.first);
        case Stalled::gpus:
        case Stalled::slow_rank:
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
        case Stalled::slow_rank:
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
    for (std::size_t i = 0; i < kinds.size(); ++i) {
        const Stalled what = kinds.at(i);
        bool& told = told_.at(i);
        const bool still = stands_still(what, now);
        if (still == told) continue;
        told = still;
        return StallChange{.what = what,
                           .begins = still,
                           .since = std::chrono::floor<seconds>(now - last_sign(what))};
    }
    return std::nullopt;
}

namespace {

// Returns "rank 2 on h2 has needed 1.9 times as long", or "ranks 4-7 on h2 …" of the slowest.
std::string slowness_of(const std::vector<SlowRank>& slow) {
    constexpr std::size_t most_nodes = 4;
    std::vector<int> ranks;
    std::vector<std::string> nodes;
    int percent = 0;
    for (const SlowRank& one : slow) {
        ranks.push_back(one.rank);
        if (std::find(nodes.begin(), nodes.end(), one.node) == nodes.end())
            nodes.push_back(one.node);
        percent = std::max(percent, one.percent);
    }
    return fmt::format(
        "{} {} on {} {} needed {}{:.1f} times as long as the median of the others "
        "between collectives",
        slow.size() == 1 ? "rank" : "ranks", base::number_ranges(ranks, ", "),
        nodes.size() > most_nodes ? fmt::format("{} nodes", nodes.size())
                                  : fmt::format("{}", fmt::join(nodes, ", ")),
        slow.size() == 1 ? "has" : "have", slow.size() == 1 ? "" : "up to ", percent / 100.0);
}

}  // namespace

std::string text_of(const StallChange& change) {
    const StallWords words = words_of(change.what);
    if (!change.slow.empty())
        return fmt::format("{} for {} s (\"{}\")", slowness_of(change.slow), change.since.count(),
                           words.key);
    if (!change.begins) return fmt::format("{} (\"{}\")", words.end, words.key);
    return fmt::format("{} for {} s (\"{}\")", words.begin, change.since.count(), words.key);
}

}  // namespace batchai::run
