// SPDX-License-Identifier: GPL-2.0-or-later
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "plan/gpus.hpp"
#include "plan/planning.hpp"
#include "plan/retry.hpp"
#include "record/usage.hpp"

namespace batchai::plan {

namespace {

constexpr std::string_view unbuffered = "PYTHONUNBUFFERED";
constexpr std::string_view watch_pointer = "/properties/watch";

int seconds_of(const std::optional<std::chrono::seconds>& time) {
    return static_cast<int>(time.value_or(std::chrono::seconds(0)).count());
}

void check_use_is_noted(Planning& planning, const Watch& watch) {
    const std::string* const interval =
        last_value(planning.plan.environment, record::usage_interval_variable);
    if (interval == nullptr || *interval != "0" ||
        (watch.silence == 0 && watch.idle_gpu == 0 && watch.slow_percent == 0))
        return;
    planning.findings.add(
        Finding::bad_watch, watch_pointer,
        "\"silence\", \"idleGpu\" and \"slowRank\" need to know what the ranks use, and "
        "BATCHAI_USAGE_INTERVAL=0 says that nobody notes it",
        "remove the variable, or watch only \"progress\"");
}

}  // namespace

void plan_watch(Planning& planning) {
    const auto& retry = planning.plan.retry;
    const auto& wanted = planning.spec.watch;
    const bool ends = wanted && wanted->action == job::WatchAction::end;
    if (retry && retries_on(*retry, "hang") && !ends)
        planning.findings.add(Finding::bad_watch, "/properties/retry/on",
                              "\"hang\" is an end by \"watch\", and this job has none that ends it",
                              R"(give "watch": {"silence": "PT10M", "action": "end"})");
    if (retry && retries_on(*retry, "slow") && !(ends && wanted->slow_percent))
        planning.findings.add(
            Finding::bad_watch, "/properties/retry/on",
            "\"slow\" is an end by \"watch.slowRank\", and this job has none that ends it",
            R"(give "watch": {"slowRank": {"percent": 150}, "action": "end"})");
    if (retry && retries_on(*retry, "slow") && !retry->exclude_failed_nodes)
        planning.findings.add(Finding::bad_watch, "/properties/retry/on",
                              "after \"slow\", the job would run on the same node again",
                              R"(give "excludeFailedNodes": true in "retry")");
    if (!wanted) return;
    Watch& watch = planning.plan.watch.emplace();
    watch = {.silence = seconds_of(wanted->silence),
             .pattern = wanted->pattern.value_or(std::string()),
             .within = seconds_of(wanted->within),
             .first = seconds_of(wanted->first),
             .idle_gpu = seconds_of(wanted->idle_gpu),
             .slow_percent = wanted->slow_percent.value_or(0),
             .slow_over = wanted->slow_percent ? seconds_of(wanted->slow_over) : 0,
             .ends = ends};
    if (watch.silence == 0 && watch.pattern.empty() && watch.idle_gpu == 0 &&
        watch.slow_percent == 0)
        planning.findings.add(Finding::bad_watch, watch_pointer, "\"watch\" watches nothing",
                              R"(give "silence", "progress", "idleGpu" or "slowRank")");
    if (watch.idle_gpu != 0 && !gpus_of_job(planning.plan.allocation))
        planning.findings.add(
            Finding::bad_watch, "/properties/watch/idleGpu",
            "the job has no GPUs that could be idle",
            R"(leave it out, or ask for GPUs with "slurm": {"gpus-per-node": "1"})");
    check_use_is_noted(planning, watch);
    // Python would keep the lines of progress to itself until there are 8 KiB of them.
    if (!watch.pattern.empty() && last_value(planning.plan.environment, unbuffered) == nullptr)
        planning.plan.environment.push_back({.name = std::string(unbuffered), .value = "1"});
}

}  // namespace batchai::plan
