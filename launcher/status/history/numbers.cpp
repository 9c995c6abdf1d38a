// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/history/numbers.hpp"

#include <cmath>
#include <string>

#include "base/record.hpp"
#include "job/syntax/utf8.hpp"
#include "record/ended_by.hpp"

namespace batchai::status {

namespace {

using base::Value;

Value integer(std::size_t number) {
    return Value(static_cast<std::int64_t>(number));
}

// Times in seconds, to the microsecond.
Value real(double number) {
    constexpr double digits = 1e6;
    return std::isfinite(number) ? Value(std::round(number * digits) / digits) : Value();
}

template <typename Number>
Value optional(const std::optional<Number>& number) {
    return number ? Value(*number) : Value();
}

// JSON is UTF-8, and a line of a log may have any bytes.
Value text_value(const std::string& text) {
    return job::is_utf8(text) ? Value(text) : Value(job::printable(text));
}

Value text_or_null(const std::string& text) {
    return text.empty() ? Value() : text_value(text);
}

Value bar_value(const Bar& bar) {
    return Value::Object{{"begin", base::to_iso8601(bar.begin)},
                         {"end", bar.open ? Value() : Value(base::to_iso8601(bar.end))},
                         {"failed", bar.failed},
                         {"phase", text_value(bar.phase)},
                         {"ready", base::to_value(bar.ready)},
                         {"seconds", real(seconds_between(bar.begin, bar.end))}};
}

Value failure_value(const std::optional<record::Failure>& failure) {
    if (!failure) return {};
    return Value::Object{{"code", text_value(failure->code)},
                         {"exitCode", optional(failure->exit_code)},
                         {"firstErrorLine", text_or_null(failure->first_error_line)},
                         {"message", text_value(failure->message)},
                         {"node", text_or_null(failure->node)},
                         {"phase", text_or_null(failure->phase)},
                         {"rank", optional(failure->rank)},
                         {"signal", optional(failure->signal)}};
}

Value resources_value(const std::vector<NodeResources>& nodes) {
    Value::Array out;
    for (const NodeResources& node : nodes) {
        out.push_back(Value::Object{
            {"cpusGiven", node.cpus_given > 0 ? Value(node.cpus_given) : Value()},
            {"cpusUsed", real(node.cpus_mean)},
            {"gpusBusy", node.gpu_mean ? real(*node.gpu_mean) : Value()},
            {"memoryAsked", node.memory_asked > 0 ? Value(node.memory_asked) : Value()},
            {"memoryPeak", Value(node.memory_peak)},
            {"node", text_value(node.node)}});
    }
    return out;
}

Value attempts_value(const Findings& findings) {
    Value::Array out;
    for (std::size_t i = 0; i < findings.attempts.size(); ++i) {
        const AttemptBars& bars = findings.attempts[i];
        const record::Attempt& record = findings.facts.attempts[i];
        Value::Array nodes;
        for (const NodeRow& row : bars.rows) {
            Value::Array phases;
            for (const Bar& bar : row.bars)
                phases.push_back(bar_value(bar));
            nodes.push_back(
                Value::Object{{"name", text_value(row.node)}, {"phases", std::move(phases)}});
        }
        Value resources;
        for (const auto& [attempt, of_nodes] : findings.resources) {
            if (attempt == bars.number) resources = resources_value(of_nodes);
        }
        out.push_back(Value::Object{
            {"attempt", bars.number},
            {"begin", base::to_iso8601(bars.begin)},
            {"end", bars.open ? Value() : Value(base::to_iso8601(bars.end))},
            {"endedBy", record.ended_by ? Value(base::word_of(*record.ended_by)) : Value()},
            {"exitCode", optional(record.exit_code)},
            {"failure", failure_value(record.failure)},
            {"nodes", std::move(nodes)},
            {"resources", std::move(resources)},
            {"seconds", real(bars.seconds())}});
    }
    return out;
}

Value rank_value(const RankSpeed& rank) {
    Value since;
    if (rank.slow_since)
        since = Value::Object{
            {"step", rank.slow_since->step > 0 ? integer(rank.slow_since->step) : Value()},
            {"time", base::to_iso8601(rank.slow_since->time)}};
    return Value::Object{{"node", text_or_null(rank.host)},
                         {"ownSeconds", real(rank.own)},
                         {"rank", rank.rank},
                         {"slowSince", std::move(since)},
                         {"steps", integer(rank.steps)},
                         {"stepsPerSecond", real(rank.steps_per_second)},
                         {"timesTheMedian", real(rank.ratio)}};
}

Value speed_value(const Speed& speed) {
    if (!speed.known()) return {};
    Value::Array ranks;
    for (const RankSpeed& rank : speed.ranks)
        ranks.push_back(rank_value(rank));
    return Value::Object{{"bytes", real(speed.bytes)},
                         {"communicationSeconds", real(speed.communication)},
                         {"ranks", std::move(ranks)},
                         {"stepSeconds", real(speed.total)},
                         {"transferSeconds", real(speed.transfer)},
                         {"waitingSeconds", real(speed.waiting)},
                         {"workSeconds", real(speed.work)}};
}

Value job_value(const Summary& job, const Asked& asked) {
    return Value::Object{
        {"command", text_or_null(asked.command)},
        {"created", base::to_value(job.created)},
        {"end", base::to_value(job.end)},
        {"endedBy", text_or_null(job.ended_by)},
        {"errorCode", text_or_null(job.error_code)},
        {"errorMessage", text_or_null(job.error_message)},
        {"executionState", text_value(job.state)},
        {"exitCode", optional(job.exit_code)},
        {"expectedStart", base::to_value(job.expected_start)},
        {"image", text_or_null(asked.image)},
        {"name", text_value(job.name)},
        {"nodes", asked.nodes},
        {"ranks", asked.ranks},
        {"slurmJobId", text_value(job.slurm_job_id)},
        {"start", base::to_value(job.start)},
        {"timeLimitSeconds", asked.limit_seconds > 0 ? Value(asked.limit_seconds) : Value()},
        {"toolType", text_value(asked.tool)},
        {"whyItWaits", text_or_null(job.why_it_waits)}};
}

}  // namespace

Value events_value(const std::vector<Event>& events) {
    Value::Array out;
    for (const Event& event : events) {
        out.push_back(Value::Object{{"attempt", optional(event.attempt)},
                                    {"kind", text_value(event.kind)},
                                    {"node", text_or_null(event.node)},
                                    {"rank", optional(event.rank)},
                                    {"text", text_value(event.text)},
                                    {"time", base::to_iso8601(event.time)}});
    }
    return out;
}

Value numbers_of(const Findings& findings) {
    Value::Array advice;
    for (const Advice& one : findings.advice)
        advice.push_back(
            Value::Object{{"code", text_value(one.code)}, {"text", text_value(one.text)}});
    return Value::Object{{"advice", std::move(advice)},
                         {"attempts", attempts_value(findings)},
                         {"job", job_value(findings.facts.job, findings.facts.asked)},
                         {"schema", "batchai-report/v1"},
                         {"steps", speed_value(findings.speed)},
                         {"whyNoSteps", text_or_null(findings.why_no_speed)}};
}

}  // namespace batchai::status
