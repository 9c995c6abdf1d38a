// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/watch/slow_rank.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <set>

namespace batchai::run {

namespace {

constexpr int quarters = 4;
// Of the time, which the others must spend on their own work, and a slow rank more than they do.
constexpr double least_work = 0.02;
constexpr double least_difference = 0.05;
// A node whose ranks have ended, or that is lost, says no more.
constexpr int most_looks_without_news = 15;

using Seconds = std::chrono::duration<double>;

// Returns the median of all but the one at `place`.
double median_of_others(const std::vector<double>& sorted, std::size_t place) {
    const std::size_t middle = (sorted.size() - 2) / 2;
    return sorted[place > middle ? middle : middle + 1];
}

}  // namespace

void SlowRankMeter::look(const std::vector<record::NodeUsage>& usage) {
    for (auto& [number, rank] : ranks_)
        ++rank.looks_without_news;
    for (const record::NodeUsage& one : usage) {
        if (record::kind_of_usage(one.step) != "ranks") continue;
        for (const record::UsageSample& sample : one.samples) {
            for (const record::RankUsage& use : sample.ranks) {
                if (use.waited.value_or(0) <= 0) continue;
                Rank& rank = ranks_[use.rank];
                if (!rank.points.empty() && sample.time <= rank.points.back().time) continue;
                rank.node = one.node;
                rank.looks_without_news = 0;
                rank.points.push_back({.time = sample.time, .waited = *use.waited});
            }
        }
    }
    std::erase_if(ranks_, [](const auto& one) {
        return one.second.looks_without_news > most_looks_without_news;
    });
    const std::chrono::seconds kept(watch_.slow_over);
    for (auto& [number, rank] : ranks_) {
        // The first one is that before the time that is watched.
        while (rank.points.size() > 1 && rank.points.back().time - rank.points[1].time >= kept)
            rank.points.pop_front();
    }
}

// In some of the quarters of the time that is watched. Each rank is measured by its own node's
// clock.
std::vector<SlowRank> SlowRankMeter::slow_in(int first_quarter, int end) const {
    struct Work {
        int rank;
        const std::string* node;
        double share;
    };
    std::vector<Work> works;
    const std::chrono::seconds whole(watch_.slow_over);
    for (const auto& [number, rank] : ranks_) {
        const auto point_at = [&](int quarter) -> const Point* {
            const base::Time time =
                rank.points.back().time - whole * (quarters - quarter) / quarters;
            const auto after =
                std::upper_bound(rank.points.begin(), rank.points.end(), time,
                                 [](base::Time at, const Point& point) { return at < point.time; });
            return after == rank.points.begin() ? nullptr : &*std::prev(after);
        };
        const Point* const from = point_at(first_quarter);
        const Point* const to = point_at(end);
        // As long as one is not known, nobody can say who is slow.
        if (from == nullptr || from == to) return {};
        const double seconds = Seconds(to->time - from->time).count();
        const double waited = std::clamp((to->waited - from->waited) / seconds, 0.0, 1.0);
        works.push_back({.rank = number, .node = &rank.node, .share = 1 - waited});
    }
    if (works.size() < 2) return {};
    std::stable_sort(works.begin(), works.end(),
                     [](const Work& a, const Work& b) { return a.share < b.share; });
    std::vector<double> shares;
    shares.reserve(works.size());
    for (const Work& work : works)
        shares.push_back(work.share);
    std::vector<SlowRank> slow;
    for (std::size_t i = 0; i < works.size(); ++i) {
        const double usual = median_of_others(shares, i);
        if (usual < least_work || shares[i] - usual < least_difference) continue;
        const double percent = 100 * shares[i] / usual;
        if (percent < watch_.slow_percent) continue;
        slow.push_back(
            {.rank = works[i].rank, .node = *works[i].node, .percent = static_cast<int>(percent)});
    }
    std::sort(slow.begin(), slow.end(),
              [](const SlowRank& a, const SlowRank& b) { return a.rank < b.rank; });
    return slow;
}

std::vector<SlowRank> SlowRankMeter::slow_ranks() const {
    std::vector<SlowRank> slow = slow_in(0, quarters);
    for (int quarter = 0; quarter < quarters && !slow.empty(); ++quarter) {
        std::set<int> then;
        for (const SlowRank& one : slow_in(quarter, quarter + 1))
            then.insert(one.rank);
        std::erase_if(slow, [&](const SlowRank& one) { return !then.contains(one.rank); });
    }
    return slow;
}

std::optional<StallChange> SlowRankMeter::poll() {
    if (watch_.slow_percent == 0) return std::nullopt;
    StallChange change{.what = Stalled::slow_rank,
                       .begins = !told_,
                       .since = std::chrono::seconds(watch_.slow_over),
                       .slow = {}};
    if (told_) {
        // Half of the time without a slow rank, so that one that is slow on and off is told once.
        if (!slow_in(quarters / 2, quarters).empty()) return std::nullopt;
    } else {
        change.slow = slow_ranks();
        if (change.slow.empty()) return std::nullopt;
    }
    told_ = !told_;
    return change;
}

}  // namespace batchai::run
