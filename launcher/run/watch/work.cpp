// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/watch/work.hpp"

#include <algorithm>
#include <chrono>
#include <set>

#include <fmt/format.h>

namespace batchai::run {

namespace {

constexpr double least_cpu = 0.05;           // of one CPU
constexpr double least_bytes = 64 * 1024.0;  // per second
constexpr int least_gpu = 5;                 // percent
constexpr std::chrono::seconds longest_without_sample{60};
// The times of samples are tenths of a second, and their CPU time is not exact either.
constexpr std::chrono::seconds shortest_between_samples{1};

double cpu_of(const record::UsageSample& sample, int rank) {
    const auto found = std::find_if(sample.ranks.begin(), sample.ranks.end(),
                                    [&](const record::RankUsage& one) { return one.rank == rank; });
    return found == sample.ranks.end() ? 0 : found->cpu_seconds;
}

// Those of the record have less exact numbers than live ones, and not all of them.
bool is_live(const record::UsageSample& sample) {
    return sample.copied > 0;
}

bool ranks_worked(const record::UsageSample& before, const record::UsageSample& now) {
    const double seconds = std::chrono::duration<double>(now.time - before.time).count();
    const auto bytes = is_live(before) ? now.copied - before.copied : 0;
    if (static_cast<double>(bytes) / seconds >= least_bytes) return true;
    return std::any_of(now.ranks.begin(), now.ranks.end(), [&](const record::RankUsage& rank) {
        return (rank.cpu_seconds - cpu_of(before, rank.rank)) / seconds >= least_cpu;
    });
}

// A node without NVML tells nothing of its GPUs.
bool tells_all_gpus(const record::UsageSample& sample, const record::UsageHead& head) {
    return sample.gpus.size() >= static_cast<std::size_t>(head.gpus) &&
           std::all_of(sample.gpus.begin(), sample.gpus.end(),
                       [](const record::GpuUsage& gpu) { return gpu.busy.has_value(); });
}

bool gpus_worked(const record::UsageSample& sample) {
    return std::any_of(sample.gpus.begin(), sample.gpus.end(), [](const record::GpuUsage& gpu) {
        return gpu.busy.value_or(0) >= least_gpu;
    });
}

}  // namespace

WorkSeen WorkMeter::look(const std::vector<record::NodeUsage>& usage, Clock::time_point now) {
    WorkSeen out;
    std::set<std::string> noting;
    bool has_gpus = false;
    bool tells_gpus = true;
    for (const record::NodeUsage& one : usage) {
        const std::string kind = record::kind_of_usage(one.step);
        if (one.samples.empty() || kind == "preparation") continue;
        const record::UsageSample& newest = one.samples.back();
        const auto [known, is_first] =
            seen_.try_emplace(fmt::format("{} {} {}", one.step, one.number, one.node),
                              Seen{.last = newest, .newest = newest.time, .fresh = now});
        Seen& seen = known->second;
        for (const record::UsageSample& sample : one.samples) {
            if (is_first || sample.time <= seen.newest) continue;
            out.gpus = out.gpus || gpus_worked(sample);
            if (is_live(seen.last) && !is_live(sample)) continue;
            if (sample.time - seen.last.time < shortest_between_samples) continue;
            out.ranks = out.ranks || ranks_worked(seen.last, sample);
            seen.last = sample;
        }
        if (newest.time > seen.newest) {
            seen.newest = newest.time;
            seen.fresh = now;
        }
        if (!one.ended && now - seen.fresh >= longest_without_sample) continue;
        noting.insert(one.node);
        has_gpus = has_gpus || !newest.gpus.empty();
        // Parameter servers have none of the job's GPUs.
        tells_gpus = tells_gpus && (kind != "ranks" || tells_all_gpus(newest, one.head));
    }
    out.known = !noting.empty();
    out.everywhere = noting.size() >= nodes_;
    out.gpus_known = has_gpus && tells_gpus;
    out.ranks = out.ranks || out.gpus;
    return out;
}

}  // namespace batchai::run
