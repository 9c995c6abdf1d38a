// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/retry.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <string>

#include <fmt/format.h>

#include "base/text.hpp"
#include "plan/paths.hpp"
#include "plan/planning.hpp"

namespace batchai::plan {

bool retries_on(const Retry& retry, std::string_view cause) {
    return std::find(retry.on.begin(), retry.on.end(), cause) != retry.on.end();
}

bool retries_on_exit_code(const Retry& retry, int exit_code) {
    return std::any_of(retry.on.begin(), retry.on.end(), [&](const std::string& element) {
        const auto ends = base::split(element, '-');
        const auto first = base::number_in<int>(ends.front());
        const auto last = base::number_in<int>(ends.back());
        return first && last && *first <= exit_code && exit_code <= *last;
    });
}

namespace {

constexpr std::string_view retry_pointer = "/properties/retry";

// Returns the host path of the directory in which the job makes progress, or an empty string after
// it has reported a fault.
std::string progress_directory(Planning& planning, const std::string& text) {
    constexpr std::string_view pointer = "/properties/retry/stopWithoutProgress/directory";
    const std::string path = normalized(planning.expand(text, pointer));
    const auto host = planning.plan.host_path(path);
    if (path.starts_with('/') && !has_parent_component(path) && host) return *host;
    planning.findings.add(
        Finding::bad_retry, pointer,
        fmt::format("\"directory\" must be on storage that all nodes share, but \"{}\" expands to "
                    "\"{}\"",
                    text, path),
        "name a directory below a mount, such as $AZ_BATCHAI_OUTPUT_MODEL; remote storage is not "
        "supported yet");
    return {};
}

int number_of(job::CheckpointSignal signal) {
    switch (signal) {
        case job::CheckpointSignal::usr1:
            return SIGUSR1;
        case job::CheckpointSignal::usr2:
            return SIGUSR2;
        case job::CheckpointSignal::term:
            break;
    }
    return SIGTERM;
}

bool has_option(const Planning& planning, std::string_view name) {
    const auto& options = planning.plan.allocation.options;
    return std::any_of(options.begin(), options.end(),
                       [&](const SlurmOption& option) { return option.name == name; });
}

}  // namespace

void plan_checkpoint(Planning& planning) {
    if (!planning.spec.checkpoint) return;
    constexpr std::string_view pointer = "/properties/checkpoint";
    const job::CheckpointSettings& wanted = *planning.spec.checkpoint;
    if (has_option(planning, "signal"))
        planning.findings.add(Finding::bad_retry, pointer,
                              "\"checkpoint\" and --signal contradict each other",
                              "leave out one of the two");
    const std::chrono::seconds limit = planning.plan.allocation.time_limit;
    if (limit.count() > 0 && wanted.before >= limit)
        planning.findings.add(
            Finding::bad_retry, "/properties/checkpoint/before",
            fmt::format("\"before\" is {} s, and the job may run no longer than {} s",
                        wanted.before.count(), limit.count()),
            "make \"before\" shorter than \"constraints.maxWallClockTime\"");
    planning.plan.checkpoint =
        Checkpoint{.signal = number_of(wanted.signal),
                   .seconds_before = static_cast<int>(wanted.before.count())};
}

void plan_retry(Planning& planning) {
    if (!planning.spec.retry) return;
    const job::RetrySettings& wanted = *planning.spec.retry;
    if (has_option(planning, "no-requeue"))
        planning.findings.add(Finding::bad_retry, retry_pointer,
                              "\"retry\" and --no-requeue contradict each other",
                              "leave out one of the two");
    Retry& retry = planning.plan.retry.emplace();
    retry.on = wanted.on;
    retry.max = wanted.max;
    retry.exclude_failed_nodes = wanted.exclude_failed_nodes;
    retry.in_allocation = wanted.in_allocation;
    retry.attempts_without_progress = wanted.attempts_without_progress;
    if (wanted.progress_directory)
        retry.progress_directory = progress_directory(planning, *wanted.progress_directory);
}

}  // namespace batchai::plan
