// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/history/phases.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace batchai::status {

namespace {

using record::Attempt;
using record::NodeStep;
using record::Phase;

constexpr bool everywhere = true;
constexpr std::array looks{
    PhaseLook{"outputs", 'o', 7, "c7"},
    PhaseLook{"health", 'h', 6, "c6", everywhere},
    PhaseLook{"image", 'i', 5, "c3"},
    PhaseLook{"node-setup", 's', 2, "c1", everywhere},
    PhaseLook{"software", 'm', 5, "c2", everywhere},
    PhaseLook{"preparation", 'p', 3, "c4", everywhere},
    PhaseLook{"gpu-check", 'g', 6, "c6", everywhere},
    PhaseLook{"wire-up", 'w', 6, "c5", everywhere},
    PhaseLook{"ports", 't', 7, "c7", everywhere},
    PhaseLook{"ranks", 'r', 4, "c0", everywhere},
    PhaseLook{"logs", 'l', 2, "c2"},
    PhaseLook{"clean-up", 'c', 7, "c7"},
};
constexpr PhaseLook unknown{.name = "other"};

// An attempt that did not record its end was killed. What is known last of it counts.
base::Time last_moment(const Attempt& attempt, bool newest, const Facts& facts) {
    if (attempt.end) return *attempt.end;
    if (newest && facts.job.end) return std::max(*facts.job.end, attempt.start);
    if (newest) return std::max(facts.now, attempt.start);
    base::Time last = attempt.start;
    for (const Phase& phase : attempt.phases)
        last = std::max(last, phase.end.value_or(phase.start));
    for (const record::Restart& restart : attempt.restarts)
        last = std::max(last, restart.time);
    return last;
}

// Returns how long the step ran in the phase, in seconds; negative if it did not.
double overlap(const NodeStep& step, const Bar& phase) {
    return seconds_between(std::max(step.begin, phase.begin),
                           std::min(step.end.value_or(phase.end), phase.end));
}

// Returns the phase with which the step shares most time, because a step does not know its phase,
// and clocks differ a little.
Bar* phase_of(const NodeStep& step, std::vector<Bar>& bars) {
    Bar* best = nullptr;
    double most = 0;
    for (Bar& bar : bars) {
        if (!look_of(bar.phase).on_all_nodes) continue;
        const double shared = overlap(step, bar);
        if (shared <= most) continue;
        most = shared;
        best = &bar;
    }
    return best;
}

// Puts the node's own times into its bars. Of several steps in a phase, the phase's own is the one
// that begins with it. The others were started beside it, such as by `job node exec`; the step of
// the batch script has begun before the attempt.
void take_own_times(NodeRow& row, const std::vector<const NodeStep*>& steps, const Facts& facts,
                    const AttemptBars& attempt) {
    std::map<Bar*, const NodeStep*> own;
    for (const NodeStep* const step : steps) {
        if (step->begin > attempt.end) break;
        if (step->begin < attempt.begin || step->end.value_or(facts.now) < attempt.begin) continue;
        Bar* const bar = phase_of(*step, row.bars);
        if (bar == nullptr) continue;
        const auto [known, is_new] = own.try_emplace(bar, step);
        const auto distance = [&](const NodeStep& of) {
            return std::abs(seconds_between(bar->begin, of.begin));
        };
        if (!is_new && distance(*step) < distance(*known->second)) known->second = step;
    }
    for (const auto& [bar, step] : own) {
        bar->begin = std::clamp(step->begin, attempt.begin, attempt.end);
        bar->ready = step->ready;
        bar->end = std::max(bar->end, bar->begin);
        if (!step->end) continue;
        bar->end = std::clamp(*step->end, bar->begin, attempt.end);
        bar->open = false;
    }
}

bool has_failed(const Attempt& attempt, const Phase& phase, const std::string& node) {
    const bool blamed = attempt.failure && attempt.failure->phase == phase.name &&
                        (attempt.failure->node.empty() || attempt.failure->node == node);
    return phase.end && phase.exit_code != 0 && (blamed || !attempt.failure);
}

}  // namespace

double seconds_between(base::Time from, base::Time to) {
    return std::chrono::duration<double>(to - from).count();
}

double AttemptBars::seconds() const {
    return std::max(0.0, seconds_between(begin, end));
}

std::span<const PhaseLook> phase_looks() {
    return looks;
}

const PhaseLook& look_of(std::string_view phase) {
    const auto* const found = std::find_if(
        looks.begin(), looks.end(), [&](const PhaseLook& look) { return look.name == phase; });
    return found == looks.end() ? unknown : *found;
}

std::vector<AttemptBars> bars_of(const Facts& facts) {
    std::map<std::string, std::vector<const NodeStep*>> steps;
    for (const NodeStep& step : facts.node_steps)
        steps[step.node].push_back(&step);
    std::vector<AttemptBars> out;
    for (const Attempt& attempt : facts.attempts) {
        const bool newest = &attempt == &facts.attempts.back();
        AttemptBars bars{.number = attempt.number,
                         .begin = attempt.start,
                         .end = last_moment(attempt, newest, facts),
                         .open = newest && !attempt.end && !facts.job.ended,
                         .rows = {}};
        for (const std::string& node : attempt.nodes) {
            NodeRow row{.node = node, .bars = {}};
            for (const Phase& phase : attempt.phases) {
                if (!look_of(phase.name).on_all_nodes && node != attempt.nodes.front()) continue;
                const base::Time begin = std::clamp(phase.start, bars.begin, bars.end);
                row.bars.push_back(
                    {.phase = phase.name,
                     .begin = begin,
                     .end = std::clamp(phase.end.value_or(bars.end), begin, bars.end),
                     .open = !phase.end && bars.open,
                     .failed = has_failed(attempt, phase, node),
                     .ready = {}});
            }
            const auto own = steps.find(node);
            if (own != steps.end()) take_own_times(row, own->second, facts, bars);
            bars.rows.push_back(std::move(row));
        }
        out.push_back(std::move(bars));
    }
    return out;
}

std::string duration_text(double seconds) {
    constexpr std::int64_t minute = 60;
    constexpr std::int64_t hour = 60 * minute;
    constexpr std::int64_t day = 24 * hour;
    if (!std::isfinite(seconds) || seconds < 0) return "0 s";
    if (seconds < 0.001) return fmt::format("{:.2g} ms", seconds * 1000);
    if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1000);
    if (seconds < 10) return fmt::format("{:.1f} s", seconds);
    const std::int64_t whole = std::llround(std::min(seconds, 1e15));
    if (whole < minute) return fmt::format("{} s", whole);
    if (whole < hour) return fmt::format("{} min {:02} s", whole / minute, whole % minute);
    if (whole < day) return fmt::format("{} h {:02} min", whole / hour, whole % hour / minute);
    return fmt::format("{} d {} h", whole / day, whole % day / hour);
}

std::string time_text(base::Time time) {
    std::string text = base::to_iso8601_seconds(time).substr(0, 19);
    if (text.size() > 10) text[10] = ' ';
    return text;
}

}  // namespace batchai::status
