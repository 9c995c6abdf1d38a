// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/history/events.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/record.hpp"
#include "job/syntax/utf8.hpp"
#include "record/ended_by.hpp"
#include "status/history/phases.hpp"

namespace batchai::status {

namespace {

using record::Attempt;
using record::Failure;
using record::Phase;

std::string nodes_text(const std::vector<std::string>& nodes) {
    constexpr std::size_t shown = 8;
    if (nodes.size() <= shown) return fmt::format("{}", fmt::join(nodes, ", "));
    return fmt::format("{} and {} more", fmt::join(nodes.begin(), nodes.begin() + shown, ", "),
                       nodes.size() - shown);
}

std::string failure_text(const Failure& failure) {
    std::string text = failure.message.empty() ? failure.code : failure.message;
    if (failure.rank) text += fmt::format(", first on rank {}", *failure.rank);
    if (failure.signal) text += fmt::format(", by signal {}", *failure.signal);
    if (failure.exit_code) text += fmt::format(", with exit code {}", *failure.exit_code);
    if (!failure.first_error_line.empty()) text += ": " + failure.first_error_line;
    return text;
}

class Events {
  public:
    explicit Events(const Facts& facts) : facts_(facts) {}

    std::vector<Event> take() {
        add_submission();
        for (const Attempt& attempt : facts_.attempts)
            add_attempt(attempt);
        add_notes();
        if (facts_.job.ended && facts_.job.end) add_end(*facts_.job.end);
        // Events of one moment stay in the order in which they were added.
        std::stable_sort(events_.begin(), events_.end(),
                         [](const Event& a, const Event& b) { return a.time < b.time; });
        return std::move(events_);
    }

  private:
    void add(base::Time time, std::string_view kind, std::string text, std::string node = {},
             std::optional<int> rank = {}) {
        events_.push_back({.time = time,
                           .attempt = attempt_,
                           .kind = std::string(kind),
                           .node = std::move(node),
                           .rank = rank,
                           .text = std::move(text)});
    }

    void add_submission() {
        const Summary& job = facts_.job;
        if (job.created)
            add(*job.created, "submitted",
                fmt::format("submitted as Slurm job {}", job.slurm_job_id));
        if (job.why_it_waits.empty()) return;
        add(facts_.now, "waits",
            fmt::format("waits: {}; expected start: {}", job.why_it_waits,
                        job.expected_start ? time_text(*job.expected_start) + " (estimate)"
                                           : std::string("unknown")));
    }

    void add_attempt(const Attempt& attempt) {
        attempt_ = attempt.number;
        add(attempt.start, "attemptBegan",
            fmt::format("attempt {} began on {}", attempt.number, nodes_text(attempt.nodes)));
        for (const Phase& phase : attempt.phases)
            add_phase(attempt, phase);
        for (const record::Restart& restart : attempt.restarts)
            add(restart.time, "ranksRestarted",
                fmt::format("the ranks start again on {}: {}", nodes_text(restart.nodes),
                            failure_text(restart.failure)),
                restart.failure.node, restart.failure.rank);
        for (const record::Loss& loss : attempt.losses)
            add(loss.time, "ranksLost",
                fmt::format("{} rank{} without rank{} {}: {}", loss.ranks_left,
                            loss.ranks_left == 1 ? " goes on" : "s go on",
                            loss.ranks.size() == 1 ? "" : "s", fmt::join(loss.ranks, ", "),
                            failure_text(loss.failure)),
                loss.failure.node, loss.failure.rank);
        for (const record::Alarm& alarm : attempt.alarms)
            add(alarm.time, "alarm",
                alarm.where.empty() ? alarm.message
                                    : fmt::format("{}: {}", alarm.message, alarm.where),
                alarm.node, alarm.rank);
        const base::Time last = end_of(attempt);
        if (attempt.failure)
            add(time_of_failure(attempt, last), "failure", failure_text(*attempt.failure),
                attempt.failure->node, attempt.failure->rank);
        if (attempt.end || (attempt.ended_by && &attempt != &facts_.attempts.back()))
            add(last, "attemptEnded", ended_text(attempt));
        if (attempt.retried && !attempt.retried->message.empty())
            add(last, "retry", attempt.retried->message);
        attempt_.reset();
    }

    void add_phase(const Attempt& attempt, const Phase& phase) {
        const std::string node = look_of(phase.name).on_all_nodes || attempt.nodes.empty()
                                     ? std::string()
                                     : attempt.nodes.front();
        add(phase.start, "phaseBegan", fmt::format("phase {} began", phase.name), node);
        if (!phase.end) return;
        std::string text = fmt::format("phase {} ended after {}", phase.name,
                                       duration_text(seconds_between(phase.start, *phase.end)));
        if (phase.exit_code != 0) text += fmt::format(" with exit code {}", phase.exit_code);
        add(*phase.end, "phaseEnded", std::move(text), node);
    }

    static base::Time end_of(const Attempt& attempt) {
        base::Time last = attempt.start;
        for (const Phase& phase : attempt.phases)
            last = std::max(last, phase.end.value_or(phase.start));
        return attempt.end.value_or(last);
    }

    // The record does not have this time; the failure is known when its phase ends.
    static base::Time time_of_failure(const Attempt& attempt, base::Time otherwise) {
        for (auto phase = attempt.phases.rbegin(); phase != attempt.phases.rend(); ++phase) {
            if (phase->name == attempt.failure->phase && phase->end) return *phase->end;
        }
        return otherwise;
    }

    static std::string ended_text(const Attempt& attempt) {
        const auto by = attempt.ended_by.value_or(record::EndedBy::unknown);
        std::string text =
            fmt::format("attempt {} ended, by {}", attempt.number, base::word_of(by));
        if (attempt.exit_code) text += fmt::format(", with exit code {}", *attempt.exit_code);
        return text;
    }

    void add_notes() {
        for (const record::FailureNote& note : facts_.failures)
            add(note.time.value_or(facts_.job.end.value_or(facts_.now)), "nodeFailure",
                fmt::format("{}: {}", note.code, note.text), note.node);
    }

    void add_end(base::Time end) {
        const Summary& job = facts_.job;
        std::string text = fmt::format("the job has {}, ended by {}", job.state, job.ended_by);
        if (job.exit_code) text += fmt::format(", with exit code {}", *job.exit_code);
        if (!job.error_message.empty()) text += ": " + job.error_message;
        add(end, "jobEnded", std::move(text));
    }

    const Facts& facts_;
    std::vector<Event> events_;
    std::optional<int> attempt_;
};

}  // namespace

std::vector<Event> events_of(const Facts& facts) {
    return Events(facts).take();
}

std::string line_of(const Event& event) {
    return fmt::format("{}  {}{}", time_text(event.time),
                       event.node.empty() ? std::string() : job::printable(event.node) + ": ",
                       job::printable(event.text));
}

}  // namespace batchai::status
