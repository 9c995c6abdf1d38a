// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/watch/slow_rank.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "record/rank_waits.hpp"

namespace batchai::run {

namespace {

constexpr int slices = 10;
constexpr int least_slow_slices = 8;
// Of the time, which the others must spend on their own work, and all lose by a slow rank.
constexpr double least_work = 0.02;
constexpr double least_loss = 0.1;
// A node whose ranks have ended, or that is lost, says no more.
constexpr int most_looks_without_news = 10;

using Seconds = std::chrono::duration<double>;

// Returns the median of all but the one at `place`.
double median_of_others(const std::vector<double>& sorted, std::size_t place) {
    const auto other = [&](std::size_t index) { return sorted[index < place ? index : index + 1]; };
    const std::size_t count = sorted.size() - 1;
    return (other((count - 1) / 2) + other(count / 2)) / 2;
}

}  // namespace

void SlowRankMeter::look(const std::vector<record::NodeUsage>& usage) {
    if (watch_.slow_percent == 0) return;
    has_news_ = true;
    for (auto& [number, rank] : ranks_)
        ++rank.looks_without_news;
    for (const record::NodeUsage& one : usage) {
        if (record::kind_of_usage(one.step) != "ranks") continue;
        for (const record::UsageSample& sample : one.samples) {
            for (const record::RankUsage& use : sample.ranks) {
                if (!use.waited || use.meetings == 0) continue;
                Rank& rank = ranks_[use.rank];
                if (!rank.points.empty() && sample.time <= rank.points.back().time) continue;
                rank.node = one.node;
                rank.looks_without_news = 0;
                rank.points.push_back(
                    {.time = sample.time, .waited = *use.waited, .meetings = use.meetings});
                newest_ = std::max(newest_, sample.time);
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

// Each rank is measured by its own node's clock.
std::optional<std::vector<SlowRank>> SlowRankMeter::slow_in(int first_slice, int end) const {
    struct Work {
        int rank;
        const std::string* node;
        double share;
        std::int64_t meetings;
    };
    std::vector<Work> works;
    std::vector<std::int64_t> meetings;
    const std::chrono::seconds whole(watch_.slow_over);
    for (const auto& [number, rank] : ranks_) {
        const auto point_at = [&](int slice) -> const Point* {
            const base::Time time = rank.points.back().time - whole * (slices - slice) / slices;
            const auto after =
                std::upper_bound(rank.points.begin(), rank.points.end(), time,
                                 [](base::Time at, const Point& point) { return at < point.time; });
            return after == rank.points.begin() ? nullptr : &*std::prev(after);
        };
        const Point* const from = point_at(first_slice);
        const Point* const to = point_at(end);
        if (from == nullptr || from == to) return std::nullopt;
        const double seconds = Seconds(to->time - from->time).count();
        const double waited = std::clamp((to->waited - from->waited) / seconds, 0.0, 1.0);
        meetings.push_back(to->meetings - from->meetings);
        works.push_back(
            {.rank = number, .node = &rank.node, .share = 1 - waited, .meetings = meetings.back()});
    }
    // A rank that meets the others less often may have left, or joined, or do something else.
    const std::int64_t least = std::max<std::int64_t>(record::least_meetings(meetings), 1);
    std::erase_if(works, [&](const Work& work) { return work.meetings < least; });
    std::vector<SlowRank> slow;
    if (works.size() < 2) return slow;
    std::stable_sort(works.begin(), works.end(),
                     [](const Work& a, const Work& b) { return a.share < b.share; });
    std::vector<double> shares;
    shares.reserve(works.size());
    for (const Work& work : works)
        shares.push_back(work.share);
    for (std::size_t i = 0; i < works.size(); ++i) {
        const double usual = median_of_others(shares, i);
        if (usual < least_work || shares[i] - usual < least_loss) continue;
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
    std::vector<SlowRank> slow = slow_in(0, slices).value_or(std::vector<SlowRank>());
    if (slow.empty()) return slow;
    std::map<int, int> slow_slices;
    for (int slice = 0; slice < slices; ++slice) {
        const auto then = slow_in(slice, slice + 1);
        if (!then) return {};
        for (const SlowRank& one : *then)
            ++slow_slices[one.rank];
    }
    std::erase_if(slow,
                  [&](const SlowRank& one) { return slow_slices[one.rank] < least_slow_slices; });
    return slow;
}

std::optional<StallChange> SlowRankMeter::poll() {
    if (!std::exchange(has_news_, false)) return std::nullopt;
    StallChange change{.what = Stalled::slow_rank,
                       .begins = true,
                       .since = std::chrono::seconds(watch_.slow_over),
                       .slow = slow_ranks()};
    const bool is_new = std::any_of(change.slow.begin(), change.slow.end(),
                                    [&](const auto& one) { return !told_.contains(one.rank); });
    if (is_new) {
        // Those that become slow together are told together.
        if (!new_since_) new_since_ = newest_;
        if (newest_ - *new_since_ < std::chrono::seconds(watch_.slow_over) / slices)
            return std::nullopt;
        new_since_.reset();
        for (const SlowRank& one : change.slow)
            told_.insert(one.rank);
        return change;
    }
    new_since_.reset();
    if (told_.empty()) return std::nullopt;
    // Half of the time without a slow rank, so that one that is slow on and off is told once.
    const auto lately = slow_in(slices / 2, slices);
    if (!lately || !lately->empty()) return std::nullopt;
    told_.clear();
    change.begins = false;
    change.slow.clear();
    return change;
}

}  // namespace batchai::run
