// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/watch/work.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

namespace batchai::run {

namespace {

constexpr double least_cpu = 0.05;           // of one CPU
constexpr double least_bytes = 64 * 1024.0;  // per second
constexpr int least_gpu = 5;                 // percent

double cpu_of(const record::UsageSample& sample, int rank) {
    const auto found = std::find_if(sample.ranks.begin(), sample.ranks.end(),
                                    [&](const record::RankUsage& one) { return one.rank == rank; });
    return found == sample.ranks.end() ? 0 : found->cpu_seconds;
}

bool ranks_worked(const record::UsageSample& before, const record::UsageSample& now) {
    const double seconds = std::chrono::duration<double>(now.time - before.time).count();
    if (seconds <= 0) return false;
    // Only live samples have these numbers.
    const auto bytes = before.copied > 0 ? now.copied - before.copied : 0;
    if (static_cast<double>(bytes) / seconds >= least_bytes) return true;
    return std::any_of(now.ranks.begin(), now.ranks.end(), [&](const record::RankUsage& rank) {
        return (rank.cpu_seconds - cpu_of(before, rank.rank)) / seconds >= least_cpu;
    });
}

bool gpus_worked(const record::UsageSample& sample) {
    return std::any_of(sample.gpus.begin(), sample.gpus.end(), [](const record::GpuUsage& gpu) {
        return gpu.busy.value_or(0) >= least_gpu;
    });
}

}  // namespace

WorkSeen WorkMeter::look(const std::vector<record::NodeUsage>& usage) {
    WorkSeen seen;
    for (const record::NodeUsage& one : usage) {
        const bool ours = one.step == start_ || one.step.starts_with(start_ + ".");
        if (!ours || one.samples.empty() || record::kind_of_usage(one.step) == "preparation")
            continue;
        const record::UsageSample& now = one.samples.back();
        seen.known = true;
        seen.gpus_known = seen.gpus_known || !now.gpus.empty();
        const auto [last, is_first] =
            last_.try_emplace(fmt::format("{} {} {}", one.step, one.number, one.node), now);
        // A sample that is not new says nothing: the node may have stopped taking any.
        const bool fresh = is_first || now.time > last->second.time;
        seen.ranks = seen.ranks || ranks_worked(last->second, now);
        seen.gpus = seen.gpus || (fresh && gpus_worked(now));
        last->second = now;
    }
    seen.ranks = seen.ranks || seen.gpus;
    return seen;
}

}  // namespace batchai::run
