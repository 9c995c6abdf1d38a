// SPDX-License-Identifier: Apache-2.0
#include "measure.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int fewest_iterations = 7;
constexpr int most_iterations = 20000;
constexpr int fewest_warm_ups = 2;
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
double mean_over_ranks(Library& library, double microseconds) {
    const double size = library.size();
    const double most = 16777215.0 / size;
    // Tenths of a microsecond, as a whole number.
    auto value =
        static_cast<float>(static_cast<std::int64_t>(std::clamp(microseconds * 10, 1.0, most)));
    library.allreduce(&value, 1);
    return static_cast<double>(value) / 10 / size;
}

double run(Library& library, float* data, std::size_t count, int iterations) {
    const auto start = Clock::now();
    for (int i = 0; i < iterations; ++i)
        library.allreduce(data, count);
    return microseconds(Clock::now() - start) / iterations;
}

int iterations_within(double budget_us, double each_us, int fewest, int most) {
    return static_cast<int>(std::clamp(budget_us / each_us, double(fewest), double(most)));
}

// Of each column, over the ranks, the largest: every rank writes its row of a table of zeros, and
// the sum over ranks is the table.
std::vector<float> largest_over_ranks(Library& library, const std::vector<float>& mine) {
    const auto columns = mine.size();
    const auto rows = static_cast<std::size_t>(library.size());
    std::vector<float> table(columns * rows, 0.0F);
    std::copy(mine.begin(), mine.end(),
              table.begin() + library.rank() * static_cast<std::ptrdiff_t>(columns));
    library.allreduce(table.data(), table.size());
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

void check(Library& library, float* data, std::size_t count) {
    const int size = library.size();
    // Sums stay far below 2^24: every partial sum is a whole number that a float can hold.
    const auto base = [](std::size_t i) { return static_cast<float>(i % 251 + 1); };
    for (std::size_t i = 0; i < count; ++i)
        data[i] = base(i) * static_cast<float>(library.rank() + 1);
    library.allreduce(data, count);
    const int ranks_summed = size * (size + 1) / 2;
    const auto factor = static_cast<float>(ranks_summed);
    for (std::size_t i = 0; i < count; ++i) {
        if (data[i] == base(i) * factor) continue;
        throw std::runtime_error("the sum of " + std::to_string(count) +
                                 " floats is wrong: element " + std::to_string(i) + " is " +
                                 std::to_string(data[i]) + ", not " +
                                 std::to_string(base(i) * factor));
    }
}

Point measure(Library& library, float* data, std::size_t count,
              std::chrono::duration<double> budget) {
    // Zeros stay zeros however often they are added.
    std::fill_n(data, count, 0.0F);
    library.barrier();
    const double budget_us = budget.count() * 1e6;
    const double first = mean_over_ranks(library, run(library, data, count, 1));
    const int warm_ups = iterations_within(budget_us / 4, first, fewest_warm_ups, most_warm_ups);
    const double warm = mean_over_ranks(library, run(library, data, count, warm_ups));
    const int iterations = iterations_within(budget_us, warm, fewest_iterations, most_iterations);

    std::vector<Clock::time_point> stamps(static_cast<std::size_t>(iterations) + 1);
    library.barrier();
    const double received_before = received();
    stamps[0] = Clock::now();
    for (int i = 1; i <= iterations; ++i) {
        library.allreduce(data, count);
        stamps[static_cast<std::size_t>(i)] = Clock::now();
    }
    const double received_each = (received() - received_before) / iterations;

    std::vector<float> times(static_cast<std::size_t>(iterations));
    for (std::size_t i = 0; i < times.size(); ++i)
        times[i] = static_cast<float>(microseconds(stamps[i + 1] - stamps[i]));
    times = largest_over_ranks(library, times);
    std::sort(times.begin(), times.end());
    // The least over ranks is the largest of the negatives; 0 - x, as -0 would be printed.
    const auto least =
        0 - largest_over_ranks(library, {static_cast<float>(-received_each)}).front();
    return Point{.bytes = count * sizeof(float),
                 .iterations = iterations,
                 .median_us = quantile(times, 0.5),
                 .tenth_us = quantile(times, 0.1),
                 .ninetieth_us = quantile(times, 0.9),
                 .received_bytes = static_cast<double>(least)};
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
