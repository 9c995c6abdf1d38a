// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/usage/efficiency.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/record.hpp"
#include "base/text.hpp"
#include "status/history/speed.hpp"
#include "status/output_directory.hpp"

namespace batchai::status {

base::Value tenths(const std::optional<double>& number) {
    return number ? base::Value(std::round(*number * 10) / 10) : base::Value();
}

namespace {

// When a sentence says what to change. All thresholds are here.
struct Thresholds {
    double shortest_run = 60;          // seconds; less is too short to judge
    double memory_used = 0.5;          // of what was asked for: less is a waste …
    double least_memory = base::gibi;  // … if at least this much was asked for
    double memory_nearly_all = 0.95;   // more may be too little the next time
    double memory_reserve = 1.25;      // what to ask for, as a multiple of what was used
    double cpu_used = 0.5;             // of the CPUs: less is a waste …
    double least_idle_cpus = 1;        // … if at least so many of a node were idle
    double gpu_busy = 0.3;             // of the time: less is a waste
    double time_used = 0.25;           // of the time limit: less is a waste …
    double least_time_limit = 3600;    // … if at least this was asked for
    double preparation = 0.2;          // of the run: more is a waste …
    double least_preparation = 60;     // … if it took at least so many seconds
};
constexpr Thresholds thresholds;

std::string size_in_words(double bytes) {
    if (bytes >= 10 * base::gibi) return fmt::format("{:.0f} GB", bytes / base::gibi);
    if (bytes >= base::gibi) return fmt::format("{:.1f} GB", bytes / base::gibi);
    return fmt::format("{:.0f} MB", std::max(1.0, bytes / base::mebi));
}

std::string time_in_words(double seconds) {
    if (seconds >= 2 * 3600) return fmt::format("{:.1f} hours", seconds / 3600);
    if (seconds >= 120) return fmt::format("{:.0f} minutes", seconds / 60);
    return fmt::format("{:.0f} seconds", seconds);
}

// Returns a size as Slurm's --mem takes it.
std::string size_for_slurm(double bytes) {
    if (bytes > 4 * base::gibi) return fmt::format("{:.0f}G", std::ceil(bytes / base::gibi));
    constexpr double step = 128 * base::mebi;
    return fmt::format("{:.0f}M", std::ceil(bytes / step) * 128);
}

const record::Phase* phase_named(const record::Attempt& attempt, std::string_view name) {
    const auto found = std::find_if(attempt.phases.begin(), attempt.phases.end(),
                                    [&](const record::Phase& phase) { return phase.name == name; });
    return found == attempt.phases.end() ? nullptr : &*found;
}

void add_times(const EfficiencyFacts& facts, Efficiency& out) {
    const record::Attempt& attempt = facts.attempt;
    const base::Time end = attempt.end.value_or(facts.now);
    out.queue_seconds = base::seconds_between(facts.queued, attempt.start);
    out.run_seconds = base::seconds_between(attempt.start, end);
    if (const auto* const preparation = phase_named(attempt, "preparation"))
        out.preparation_seconds =
            base::seconds_between(preparation->start, preparation->end.value_or(end));
}

// Of all starts of the ranks together.
struct GpuTime {
    double all = 0;   // seconds
    double busy = 0;  // seconds times percent
};

// The samples of steps that run one after the other on a node, or beside each other, are added up.
void add_samples(const EfficiencyFacts& facts, Efficiency& out) {
    std::map<std::string, int> cpus;  // by node
    double cpu_seconds = 0;
    std::map<std::pair<std::string, int>, GpuTime> gpus;
    for (const record::NodeUsage& usage : facts.usage) {
        if (usage.samples.empty()) continue;
        const record::UsageSample& last = usage.samples.back();
        cpu_seconds += last.cpu_seconds;
        cpus[usage.node] = std::max(cpus[usage.node], usage.head.cpus);
        if (last.peak > out.memory_peak.value_or(-1)) {
            out.memory_peak = last.peak;
            out.memory_peak_node = usage.node;
            if (usage.head.memory > 0) out.memory_requested = usage.head.memory;
        }
        if (record::kind_of_usage(usage.step) != "ranks") continue;
        for (const record::GpuUsage& gpu : last.gpus) {
            if (!gpu.mean_busy) continue;
            // The ranks may have been started several times, for different times.
            const double seconds =
                std::max(1.0, base::seconds_between(usage.head.start, last.time));
            GpuTime& time = gpus[{usage.node, gpu.index}];
            time.all += seconds;
            time.busy += seconds * *gpu.mean_busy;
        }
    }
    if (cpus.empty()) return;
    out.source = "samples";
    out.cpu_seconds = cpu_seconds;
    double sum = 0;
    for (const auto& [node, count] : cpus)
        sum += count;
    // A node whose samples are missing has as many as the others.
    const auto counted = static_cast<double>(cpus.size());
    const double nodes = std::max(counted, static_cast<double>(facts.attempt.nodes.size()));
    if (sum > 0) out.cpu_seconds_allocated = sum / counted * nodes * *out.run_seconds;
    double busy = 0;
    for (const auto& [gpu, time] : gpus) {
        busy += time.busy / time.all;
        if (time.busy <= 0) out.idle_gpus.push_back(fmt::format("{}:{}", gpu.first, gpu.second));
    }
    out.gpus = static_cast<int>(gpus.size());
    if (out.gpus > 0) out.gpu_busy_percent = busy / out.gpus;
}

void add_waits(const EfficiencyFacts& facts, Efficiency& out) {
    const auto waits = record::waits_since_start(facts.usage);
    if (waits.size() < 2) return;
    std::vector<double> shares;
    shares.reserve(waits.size());
    for (const record::RankWait& one : waits)
        shares.push_back(one.share);
    if (const auto awaited = record::awaited_one(shares)) out.awaited_rank = waits[*awaited];
    out.wait_percent = 100 * median(std::move(shares));
}

void add_accounts(const EfficiencyFacts& facts, Efficiency& out) {
    if (!facts.accounts) return;
    out.source = "accounting";
    out.cpu_seconds = facts.accounts->cpu_seconds;
    if (facts.accounts->cpu_seconds_allocated > 0)
        out.cpu_seconds_allocated = facts.accounts->cpu_seconds_allocated;
    out.task_memory_peak = facts.accounts->largest_task;
}

bool has_option(const plan::Plan& plan, std::string_view name) {
    return std::any_of(plan.allocation.options.begin(), plan.allocation.options.end(),
                       [&](const plan::SlurmOption& option) { return option.name == name; });
}

std::optional<std::string> advice_on_memory(const Efficiency& use) {
    if (!use.memory_peak || !use.memory_requested) return std::nullopt;
    const auto peak = static_cast<double>(*use.memory_peak);
    const auto asked = static_cast<double>(*use.memory_requested);
    const std::string for_slurm = size_for_slurm(peak * thresholds.memory_reserve);
    if (peak >= asked * thresholds.memory_nearly_all)
        return fmt::format(
            "The job used nearly all of the {} a node that it asked for: ask for more, so that "
            "it is not killed the next time (\"mem\": \"{}\" in \"slurm\").",
            size_in_words(asked), for_slurm);
    if (asked < thresholds.least_memory || peak > asked * thresholds.memory_used)
        return std::nullopt;
    return fmt::format(
        "The job asked for {} of memory a node and used at most {}: ask for less (\"mem\": "
        "\"{}\" in \"slurm\").",
        size_in_words(asked), size_in_words(peak), for_slurm);
}

std::optional<std::string> advice_on_cpus(const EfficiencyFacts& facts, const Efficiency& use) {
    if (!use.cpu_seconds || !use.cpu_seconds_allocated || *use.run_seconds <= 0)
        return std::nullopt;
    const double nodes = std::max<double>(1, static_cast<double>(facts.attempt.nodes.size()));
    const double had = *use.cpu_seconds_allocated / *use.run_seconds / nodes;
    const double used = *use.cpu_seconds / *use.run_seconds / nodes;
    if (used > had * thresholds.cpu_used || had - used < thresholds.least_idle_cpus)
        return std::nullopt;
    const std::string numbers =
        fmt::format("The job had {:.0f} CPUs a node and used {:.1f} of them on average", had, used);
    if (has_option(facts.plan, "exclusive"))
        return numbers +
               ": start more processes or threads on each node, or leave the rest of the nodes to "
               "others (\"exclusive\": false in \"slurm\").";
    return numbers + ": ask for fewer CPUs, or start more processes or threads on each node.";
}

std::optional<std::string> advice_on_gpus(const Efficiency& use) {
    if (!use.gpu_busy_percent) return std::nullopt;
    if (!use.idle_gpus.empty())
        return fmt::format(
            "GPUs of the job were never busy ({}): ask for fewer, or start a rank for each.",
            fmt::join(use.idle_gpus.begin(),
                      use.idle_gpus.begin() +
                          static_cast<long>(std::min<std::size_t>(use.idle_gpus.size(), 8)),
                      ", "));
    if (*use.gpu_busy_percent > 100 * thresholds.gpu_busy) return std::nullopt;
    return fmt::format(
        "The GPUs were busy for {:.0f} % of the time: find out what the ranks wait for (`batchai "
        "job top` shows their CPU time and I/O), or ask for fewer GPUs.",
        *use.gpu_busy_percent);
}

std::optional<std::string> advice_on_time(const EfficiencyFacts& facts, const Efficiency& use) {
    const double limit = std::chrono::duration<double>(facts.plan.allocation.time_limit).count();
    if (!facts.succeeded || limit < thresholds.least_time_limit ||
        *use.run_seconds > limit * thresholds.time_used)
        return std::nullopt;
    return fmt::format(
        "The job asked for {} and ran for {}: with a shorter time limit (constraints."
        "maxWallClockTime) it may start sooner.",
        time_in_words(limit), time_in_words(*use.run_seconds));
}

std::optional<std::string> advice_on_preparation(const Efficiency& use) {
    if (!use.preparation_seconds || *use.preparation_seconds < thresholds.least_preparation ||
        *use.preparation_seconds < *use.run_seconds * thresholds.preparation)
        return std::nullopt;
    return fmt::format(
        "Preparation took {} of the {} that the job ran: put what it installs into a container "
        "image, or onto a file system that the nodes share.",
        time_in_words(*use.preparation_seconds), time_in_words(*use.run_seconds));
}

std::string advice_on_waits(const EfficiencyFacts& facts, const Efficiency& use) {
    if (!facts.ended || *use.run_seconds < thresholds.shortest_run || !use.awaited_rank) return {};
    const record::RankWait& rank = *use.awaited_rank;
    return fmt::format(
        "The others waited for rank {} on {}: it was in collectives for {:.0f} % of the time, and "
        "the median rank for {:.0f} %. If it has no more work than they have, compare {} with the "
        "other nodes, or keep the job off it (\"exclude\" of \"slurm\").",
        rank.rank, rank.node, 100 * rank.share, *use.wait_percent, rank.node);
}

std::vector<std::string> advice_on_use(const EfficiencyFacts& facts, const Efficiency& use) {
    if (!facts.ended || *use.run_seconds < thresholds.shortest_run) return {};
    std::vector<std::string> out;
    for (auto& sentence : {advice_on_memory(use), advice_on_cpus(facts, use), advice_on_gpus(use),
                           advice_on_time(facts, use)}) {
        if (sentence) out.push_back(*sentence);
    }
    return out;
}

std::vector<std::string> advice(const EfficiencyFacts& facts, const Efficiency& use) {
    if (!facts.ended) return {};
    if (*use.run_seconds < thresholds.shortest_run)
        return {fmt::format("The job ran for {}, which is too short to judge what it asked for.",
                            time_in_words(*use.run_seconds))};
    std::vector<std::string> out = use.advice_on_use;
    if (auto sentence = advice_on_preparation(use)) out.push_back(std::move(*sentence));
    if (!use.advice_on_waits.empty()) out.push_back(use.advice_on_waits);
    return out;
}

}  // namespace

Efficiency efficiency(const EfficiencyFacts& facts) {
    Efficiency out;
    add_times(facts, out);
    add_samples(facts, out);
    add_waits(facts, out);
    if (out.source.empty()) add_accounts(facts, out);
    out.advice_on_use = advice_on_use(facts, out);
    out.advice_on_waits = advice_on_waits(facts, out);
    out.advice = advice(facts, out);
    return out;
}

namespace {

base::Value null_if_empty(const std::string& text) {
    return text.empty() ? base::Value() : base::Value(text);
}

}  // namespace

base::Value to_value(const Efficiency& use) {
    std::optional<double> cpu_percent;
    if (use.cpu_seconds && use.cpu_seconds_allocated.value_or(0) > 0)
        cpu_percent = 100 * *use.cpu_seconds / *use.cpu_seconds_allocated;
    base::Value::Array sentences;
    for (const std::string& sentence : use.advice)
        sentences.emplace_back(sentence);
    base::Value awaited;
    if (use.awaited_rank)
        awaited = base::Value::Object{{"node", use.awaited_rank->node},
                                      {"rank", use.awaited_rank->rank},
                                      {"waitPercent", tenths(100 * use.awaited_rank->share)}};
    return base::Value::Object{{"advice", std::move(sentences)},
                               {"awaitedRank", std::move(awaited)},
                               {"cpuPercent", tenths(cpu_percent)},
                               {"cpuSeconds", tenths(use.cpu_seconds)},
                               {"cpuSecondsAllocated", tenths(use.cpu_seconds_allocated)},
                               {"gpuBusyPercent", tenths(use.gpu_busy_percent)},
                               {"gpus", use.gpus},
                               {"memoryPeakBytes", base::to_value(use.memory_peak)},
                               {"memoryPeakNode", null_if_empty(use.memory_peak_node)},
                               {"memoryRequestedBytes", base::to_value(use.memory_requested)},
                               {"preparationSeconds", tenths(use.preparation_seconds)},
                               {"queueSeconds", tenths(use.queue_seconds)},
                               {"runSeconds", tenths(use.run_seconds)},
                               {"source", null_if_empty(use.source)},
                               {"taskMemoryPeakBytes", base::to_value(use.task_memory_peak)},
                               {"waitPercent", tenths(use.wait_percent)}};
}

namespace {

// When the newest attempt began to wait: when the job was submitted or could first start, or when
// the attempt before ended.
base::Time begin_of_waiting(const JobView& view, const std::vector<record::Attempt>& attempts) {
    base::Time begin = view.job.creation_time;
    const auto& slurm = view.evidence.slurm;
    if (slurm && slurm->eligible && *slurm->eligible <= view.attempt->start)
        begin = std::max(begin, *slurm->eligible);
    for (const record::Attempt& attempt : attempts) {
        if (attempt.number < view.attempt->number && attempt.end)
            begin = std::max(begin, *attempt.end);
    }
    return std::min(begin, view.attempt->start);
}

}  // namespace

base::Result<std::optional<Efficiency>> efficiency_of_job(const store::Store& store,
                                                          const slurm::Client& client,
                                                          const JobView& view) {
    if (!view.attempt || view.job.is_array) return std::nullopt;
    const record::JobFiles files = store.job_files(view.job.key);
    const plan::Plan plan = TRY(plan_of_job(store, view.job.key));
    const auto attempts = TRY(record::all_attempts(files));
    constexpr std::size_t samples = 3;  // which tell how long the ranks have waited
    const auto usage = record::newest_usage(files, view.attempt->number, {}, samples);
    std::optional<slurm::JobAccounts> accounts;
    const record::Attempt& attempt = *view.attempt;
    const bool judged = attempt.end && base::seconds_between(attempt.start, *attempt.end) >=
                                           thresholds.shortest_run;
    if (usage.empty() && view.ended() && judged) {
        // Without an answer nothing is said of what the job has used.
        if (const auto job = slurm::JobId::parse(view.job.slurm_job_id))
            accounts = client.accounts(*job).value_or(std::nullopt);
    }
    return efficiency({.attempt = attempt,
                       .plan = plan,
                       .usage = usage,
                       .accounts = accounts,
                       .queued = begin_of_waiting(view, attempts),
                       .now = base::now(),
                       .ended = view.ended(),
                       .succeeded = view.state == slurm::ExecutionState::succeeded});
}

}  // namespace batchai::status
