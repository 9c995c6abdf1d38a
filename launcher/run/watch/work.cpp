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
constexpr int most_looks_without = 3;

double cpu_of(const record::UsageSample& sample, int rank) {
    const auto found = std::find_if(sample.ranks.begin(), sample.ranks.end(),
                                    [&](const record::RankUsage& one) { return one.rank == rank; });
    return found == sample.ranks.end() ? 0 : found->cpu_seconds;
}

bool ranks_worked(const record::UsageSample& before, const record::UsageSample& now) {
    const double seconds = std::chrono::duration<double>(now.time - before.time).count();
    if (seconds <= 0) return false;
    const auto bytes = before.copied > 0 ? now.copied - before.copied : 0;
    if (static_cast<double>(bytes) / seconds >= least_bytes) return true;
    return std::any_of(now.ranks.begin(), now.ranks.end(), [&](const record::RankUsage& rank) {
        return (rank.cpu_seconds - cpu_of(before, rank.rank)) / seconds >= least_cpu;
    });
}

bool tells_gpus(const record::UsageSample& sample) {
    return std::any_of(sample.gpus.begin(), sample.gpus.end(),
                       [](const record::GpuUsage& gpu) { return gpu.busy.has_value(); });
}

bool gpus_worked(const record::UsageSample& sample) {
    return std::any_of(sample.gpus.begin(), sample.gpus.end(), [](const record::GpuUsage& gpu) {
        return gpu.busy.value_or(0) >= least_gpu;
    });
}

}  // namespace

WorkSeen WorkMeter::look(const std::vector<record::NodeUsage>& usage) {
    WorkSeen out;
    std::set<std::string> noting;
    for (const record::NodeUsage& one : usage) {
        if (one.samples.empty() || record::kind_of_usage(one.step) == "preparation") continue;
        const auto [known, is_first] =
            seen_.try_emplace(fmt::format("{} {} {}", one.step, one.number, one.node),
                              Seen{.last = one.samples.front()});
        Seen& seen = known->second;
        bool fresh = is_first;
        for (const record::UsageSample& now : one.samples) {
            if (!is_first && now.time <= seen.last.time) continue;
            fresh = true;
            out.ranks = out.ranks || (!is_first && ranks_worked(seen.last, now));
            out.gpus = out.gpus || (!is_first && gpus_worked(now));
            // Only live samples have this number, which never becomes less.
            const std::int64_t copied = std::max(now.copied, seen.last.copied);
            seen.last = now;
            seen.last.copied = copied;
        }
        seen.looks_without = fresh ? 0 : seen.looks_without + 1;
        if (seen.looks_without >= most_looks_without) continue;
        noting.insert(one.node);
        out.gpus_known = out.gpus_known || tells_gpus(one.samples.back());
    }
    out.known = !noting.empty();
    out.everywhere = noting.size() >= nodes_;
    out.ranks = out.ranks || out.gpus;
    return out;
}

}  // namespace batchai::run
