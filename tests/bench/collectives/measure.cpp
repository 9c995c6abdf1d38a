// SPDX-License-Identifier: Apache-2.0
#include "measure.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int fewest_iterations = 7;
// Of a call that takes longer than this; some libraries wait for seconds where ranks share cores.
constexpr double slow_us = 300'000;
constexpr int fewest_slow_iterations = 3;
constexpr int most_iterations = 20000;
constexpr int warm_up_batches = 4;
constexpr int most_warm_ups = 200;

double microseconds(Clock::duration time) {
    return std::chrono::duration<double, std::micro>(time).count();
}

// Bytes received so far by this host's interfaces, all but loopback.
double received() {
    std::ifstream table("/proc/net/dev");
    double sum = 0;
    for (std::string line; std::getline(table, line);) {
        const auto colon = line.find(':');
        if (colon == std::string::npos || line.find("lo:") != std::string::npos) continue;
        sum += std::stod(line.substr(colon + 1));
    }
    return sum;
}

// What all ranks must agree on, such as a number of iterations, they compute from a number that all
// have: the sum of whole numbers below 2^24, which is exact in any order.
double mean_over_ranks(Team& team, double microseconds) {
    const double size = team.size();
    const double most = 16777215.0 / size;
    // Tenths of a microsecond, as a whole number.
    auto value =
        static_cast<float>(static_cast<std::int64_t>(std::clamp(microseconds * 10, 1.0, most)));
    team.sum(&value, 1);
    return static_cast<double>(value) / 10 / size;
}

double run(Work& work, int iterations) {
    const auto start = Clock::now();
    for (int i = 0; i < iterations; ++i)
        work.run();
    return microseconds(Clock::now() - start) / iterations;
}

int iterations_within(double budget_us, double each_us, int fewest, int most) {
    return static_cast<int>(std::clamp(budget_us / each_us, double(fewest), double(most)));
}

// Runs the work for about that long; returns how long one run takes, by the quickest of some
// batches: a moment that other work on the machine took must not leave hardly any iterations.
double warm_up(Team& team, Work& work, double first_us, double budget_us) {
    const int runs = iterations_within(budget_us / warm_up_batches, first_us, 1,
                                       most_warm_ups / warm_up_batches);
    double quickest = first_us;
    for (int batch = 0; batch < warm_up_batches; ++batch)
        quickest = std::min(quickest, run(work, runs));
    return mean_over_ranks(team, quickest);
}

// Of each column, over the ranks, the largest: every rank writes its row of a table of zeros, and
// the sum over ranks is the table.
std::vector<float> largest_over_ranks(Team& team, const std::vector<float>& mine) {
    const auto columns = mine.size();
    const auto rows = static_cast<std::size_t>(team.size());
    std::vector<float> table(columns * rows, 0.0F);
    std::copy(mine.begin(), mine.end(),
              table.begin() + team.rank() * static_cast<std::ptrdiff_t>(columns));
    team.sum(table.data(), table.size());
    std::vector<float> largest(columns, std::numeric_limits<float>::lowest());
    for (std::size_t i = 0; i < table.size(); ++i)
        largest[i % columns] = std::max(largest[i % columns], table[i]);
    return largest;
}

double quantile(const std::vector<float>& ascending, double part) {
    const auto last = static_cast<double>(ascending.size() - 1);
    return static_cast<double>(ascending[static_cast<std::size_t>(std::lround(part * last))]);
}

}  // namespace

Point measure(Team& team, Work& work, std::chrono::duration<double> budget) {
    work.make_ready();
    team.barrier();
    const double budget_us = budget.count() * 1e6;
    const double first = mean_over_ranks(team, run(work, 1));
    const double each_us = first > slow_us ? first : warm_up(team, work, first, budget_us / 4);
    const int fewest = first > slow_us ? fewest_slow_iterations : fewest_iterations;
    const int iterations = iterations_within(budget_us, each_us, fewest, most_iterations);

    std::vector<Clock::time_point> stamps(static_cast<std::size_t>(iterations) + 1);
    team.barrier();
    const double received_before = received();
    stamps[0] = Clock::now();
    for (int i = 1; i <= iterations; ++i) {
        work.run();
        stamps[static_cast<std::size_t>(i)] = Clock::now();
    }
    const auto received_each = static_cast<float>((received() - received_before) / iterations);

    std::vector<float> times(static_cast<std::size_t>(iterations));
    for (std::size_t i = 0; i < times.size(); ++i)
        times[i] = static_cast<float>(microseconds(stamps[i + 1] - stamps[i]));
    times = largest_over_ranks(team, times);
    std::sort(times.begin(), times.end());
    // The least over ranks is the largest of the negatives; 0 - x, as -0 would be printed.
    const auto received_ends = largest_over_ranks(team, {received_each, -received_each});
    const double each = work.times_in_a_run();
    return Point{.bytes = work.bytes(),
                 .iterations = iterations,
                 .median_us = quantile(times, 0.5) / each,
                 .tenth_us = quantile(times, 0.1) / each,
                 .ninetieth_us = quantile(times, 0.9) / each,
                 .least_received_bytes = 0 - static_cast<double>(received_ends[1]),
                 .most_received_bytes = static_cast<double>(received_ends[0])};
}

double nanoseconds_of_a_timestamp() {
    constexpr int looks = 10000;
    const auto start = Clock::now();
    auto last = start;
    for (int i = 0; i < looks; ++i)
        last = Clock::now();
    return microseconds(last - start) * 1e3 / looks;
}

}  // namespace bench
