// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/history/speed.hpp"

#include <algorithm>

#include "status/history/phases.hpp"

namespace batchai::status {

namespace {

constexpr std::size_t most_bins = 60;
constexpr std::size_t steps_of_a_bin = 4;
constexpr double no_step = -1;

std::size_t bin_of(base::Time time, const Speed& speed) {
    const double length = seconds_between(speed.begin, speed.end);
    if (length <= 0) return 0;
    const double part = seconds_between(speed.begin, time) / length;
    return std::min(speed.bins - 1, static_cast<std::size_t>(std::max(0.0, part) *
                                                             static_cast<double>(speed.bins)));
}

// Sets the span of time, and how finely it is divided.
void set_bins(const Timelines& timelines, Speed& speed) {
    std::vector<double> counts;
    bool first = true;
    for (const RankTimeline& rank : timelines.ranks) {
        if (rank.steps.empty()) continue;
        counts.push_back(static_cast<double>(rank.steps.size()));
        speed.begin =
            first ? rank.steps.front().begin : std::min(speed.begin, rank.steps.front().begin);
        const TrainingStep& last = rank.steps.back();
        const base::Time end =
            last.begin + std::chrono::microseconds(static_cast<std::int64_t>(last.total * 1e6));
        speed.end = first ? end : std::max(speed.end, end);
        first = false;
    }
    speed.bins = std::clamp<std::size_t>(static_cast<std::size_t>(median(counts)) / steps_of_a_bin,
                                         1, most_bins);
}

RankSpeed speed_of_rank(const RankTimeline& rank, const Speed& speed) {
    RankSpeed out{.rank = rank.rank, .host = rank.host, .steps = rank.steps.size()};
    std::vector<double> own;
    std::vector<double> total;
    std::vector<std::vector<double>> bins(speed.bins);
    own.reserve(rank.steps.size());
    total.reserve(rank.steps.size());
    for (const TrainingStep& step : rank.steps) {
        own.push_back(step.own);
        total.push_back(step.total);
        bins[bin_of(step.begin, speed)].push_back(step.own);
    }
    out.own = median(std::move(own));
    out.total = median(std::move(total));
    out.steps_per_second = out.total > 0 ? 1 / out.total : 0;
    out.series.reserve(bins.size());
    for (auto& bin : bins)
        out.series.push_back(bin.empty() ? no_step : median(std::move(bin)));
    return out;
}

// Returns the median of the other ranks' own work in a span of time; negative if it is unknown.
double others(const Speed& speed, const RankSpeed* rank, std::size_t bin) {
    std::vector<double> numbers;
    for (const RankSpeed& other : speed.ranks) {
        if (&other != rank && other.series[bin] >= 0) numbers.push_back(other.series[bin]);
    }
    return numbers.empty() ? no_step : median(std::move(numbers));
}

// Among so many ranks, one of them does not change the median.
constexpr std::size_t many_ranks = 16;

// Finds since when the rank is slow, if it is so until the end.
void find_slowness(const Speed& speed, const std::vector<double>& medians,
                   const RankTimeline& steps, RankSpeed& rank) {
    struct Bin {
        std::size_t number;
        double own, others;
        [[nodiscard]] double ratio() const { return own / std::max(others, 1e-9); }
    };
    std::vector<Bin> bins;
    for (std::size_t i = 0; i < speed.bins; ++i) {
        const double of_others = medians.empty() ? others(speed, &rank, i) : medians[i];
        if (rank.series[i] >= 0 && of_others >= 0) bins.push_back({i, rank.series[i], of_others});
    }
    // A rank that is slow from some time on has a short step now and then.
    constexpr double nearly_all = 0.8;
    std::optional<std::size_t> since;
    double ratio = 1;
    double slow = 0;
    std::vector<double> ratios;
    std::vector<double> excess;
    for (std::size_t i = bins.size(); i-- > 0;) {
        ratios.push_back(bins[i].ratio());
        excess.push_back(bins[i].own - bins[i].others);
        if (bins[i].ratio() < slow_ratio) continue;
        slow += 1;
        if (slow < nearly_all * static_cast<double>(ratios.size()) ||
            median(excess) < slow_share * speed.total)
            continue;
        since = i;
        ratio = median(ratios);
    }
    std::vector<double> all;
    all.reserve(bins.size());
    for (const Bin& bin : bins)
        all.push_back(bin.ratio());
    rank.ratio = bins.empty() ? 1 : median(all);
    // A slow end of the job, such as its last epoch's evaluation, is not a slow rank.
    constexpr std::size_t tenth = 10;
    if (!since || (bins.size() - *since) * tenth < bins.size()) return;
    rank.ratio = ratio;
    const double length = seconds_between(speed.begin, speed.end);
    RankSpeed::Since found;
    found.time = speed.begin + std::chrono::microseconds(static_cast<std::int64_t>(
                                   length * 1e6 * static_cast<double>(bins[*since].number) /
                                   static_cast<double>(speed.bins)));
    if (*since == 0) {
        found.step = 1;
    } else if (steps.whole) {
        found.step = 1 + static_cast<std::size_t>(std::count_if(
                             steps.steps.begin(), steps.steps.end(),
                             [&](const TrainingStep& step) { return step.begin < found.time; }));
    }
    rank.slow_since = found;
}

// Divides the median step into its parts.
void set_parts(const Timelines& timelines, Speed& speed) {
    std::vector<double> totals;
    std::vector<double> owns;
    for (const RankSpeed& rank : speed.ranks) {
        totals.push_back(rank.total);
        owns.push_back(rank.own);
    }
    std::vector<double> transfers;
    std::vector<double> bytes;
    for (const RankTimeline& rank : timelines.ranks) {
        for (const TrainingStep& step : rank.steps) {
            transfers.push_back(step.transfer);
            bytes.push_back(step.bytes);
        }
    }
    speed.total = median(totals);
    speed.work = std::min(median(owns), speed.total);
    const double slowest = std::min(*std::max_element(owns.begin(), owns.end()), speed.total);
    speed.waiting = slowest - speed.work;
    speed.communication = speed.total - slowest;
    speed.transfer = median(std::move(transfers));
    speed.bytes = median(std::move(bytes));
}

}  // namespace

double median(std::vector<double> numbers) {
    if (numbers.empty()) return 0;
    const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
    std::nth_element(numbers.begin(), middle, numbers.end());
    if (numbers.size() % 2 == 1) return *middle;
    return (*middle + *std::max_element(numbers.begin(), middle)) / 2;
}

Speed speed_of(const Timelines& timelines) {
    Speed speed;
    set_bins(timelines, speed);
    std::vector<const RankTimeline*> ranks;
    for (const RankTimeline& rank : timelines.ranks) {
        if (!rank.steps.empty()) ranks.push_back(&rank);
    }
    std::sort(ranks.begin(), ranks.end(),
              [](const auto* a, const auto* b) { return a->rank < b->rank; });
    for (const RankTimeline* const rank : ranks)
        speed.ranks.push_back(speed_of_rank(*rank, speed));
    if (!speed.known()) return speed;
    set_parts(timelines, speed);
    std::vector<double> medians;
    for (std::size_t i = 0; i < speed.bins && ranks.size() > many_ranks; ++i)
        medians.push_back(others(speed, nullptr, i));
    for (std::size_t i = 0; i < ranks.size(); ++i)
        find_slowness(speed, medians, *ranks[i], speed.ranks[i]);
    return speed;
}

}  // namespace batchai::status
