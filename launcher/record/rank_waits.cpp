// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/rank_waits.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace batchai::record {

namespace {

// Of less, imports and the first meeting of the ranks are too large a part.
constexpr double least_seconds_of_run = 30;

double seconds_between(base::Time from, base::Time to) {
    return std::chrono::duration<double>(to - from).count();
}

// A rank that has never met the others takes part in no collectives.
const RankUsage* meeting_rank(const UsageSample& sample, int rank) {
    const auto one = std::find_if(sample.ranks.begin(), sample.ranks.end(),
                                  [&](const RankUsage& each) { return each.rank == rank; });
    return one != sample.ranks.end() && one->waited && one->meetings > 0 ? &*one : nullptr;
}

}  // namespace

std::optional<double> share_of_waiting(const std::vector<UsageSample>& samples, int rank) {
    constexpr double least_seconds = 3;
    const UsageSample* first = nullptr;
    double before = 0;
    std::optional<double> share;
    for (const UsageSample& sample : samples) {
        const RankUsage* const one = meeting_rank(sample, rank);
        if (one == nullptr) continue;
        if (first == nullptr) {
            first = &sample;
            before = *one->waited;
            continue;
        }
        const double seconds = seconds_between(first->time, sample.time);
        if (seconds >= least_seconds)
            share = std::clamp((*one->waited - before) / seconds, 0.0, 1.0);
    }
    return share;
}

std::vector<RankWait> waits_since_start(const std::vector<NodeUsage>& usage) {
    int newest = -1;
    for (const NodeUsage& one : usage) {
        if (kind_of_usage(one.step) == "ranks") newest = std::max(newest, one.number);
    }
    std::vector<RankWait> waits;
    std::vector<std::int64_t> meetings;
    for (const NodeUsage& one : usage) {
        if (one.number != newest || kind_of_usage(one.step) != "ranks") continue;
        // The last sample is taken when the ranks have ended, and no longer tells.
        const auto tells =
            std::find_if(one.samples.rbegin(), one.samples.rend(), [](const UsageSample& sample) {
                return std::any_of(sample.ranks.begin(), sample.ranks.end(),
                                   [](const RankUsage& rank) { return rank.waited.has_value(); });
            });
        if (tells == one.samples.rend()) continue;
        const double seconds = seconds_between(one.head.start, tells->time);
        for (const RankUsage& rank : tells->ranks) {
            if (meeting_rank(*tells, rank.rank) == nullptr || seconds < least_seconds_of_run)
                continue;
            meetings.push_back(rank.meetings);
            waits.push_back({.rank = rank.rank,
                             .node = one.node,
                             .share = std::min(*rank.waited / seconds, 1.0)});
        }
    }
    // One that only met the others at first, or now and then, is not one that they wait for.
    const std::int64_t least = least_meetings(meetings);
    std::size_t at = 0;
    std::erase_if(waits, [&](const RankWait& /*wait*/) { return meetings[at++] < least; });
    std::sort(waits.begin(), waits.end(),
              [](const RankWait& a, const RankWait& b) { return a.rank < b.rank; });
    return waits;
}

std::int64_t least_meetings(std::vector<std::int64_t> meetings) {
    if (meetings.empty()) return 0;
    const auto middle = meetings.begin() + static_cast<std::ptrdiff_t>(meetings.size() / 2);
    std::nth_element(meetings.begin(), middle, meetings.end());
    return *middle / 2;
}

std::optional<std::size_t> awaited_one(const std::vector<double>& shares) {
    if (shares.size() < 2) return std::nullopt;
    const double least_difference = shares.size() == 2 ? 0.25 : 0.1;
    std::vector<std::size_t> order(shares.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return shares[a] < shares[b]; });
    const double least = shares[order[0]];
    const double next = shares[order[1]];
    const double median = shares[order[order.size() / 2]];
    if (median - least < least_difference || next - least < (median - least) / 2)
        return std::nullopt;
    return order[0];
}

}  // namespace batchai::record
