// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/deadline.hpp"

namespace mpi_bridge_test {

inline constexpr int warm_ups = 5;

inline double median(std::vector<double> times) {
    std::ranges::sort(times);
    return times[times.size() / 2];
}

// Seconds as the host sees them, from the call to the known end.
inline double host_seconds(int rounds, const std::function<void()>& work) {
    std::vector<double> times;
    for (int round = 0; round < warm_ups + rounds; ++round) {
        const auto begin = mpi_bridge::Clock::now();
        work();
        const mpi_bridge::Seconds passed = mpi_bridge::Clock::now() - begin;
        if (round >= warm_ups) times.push_back(passed.count());
    }
    return median(times);
}

inline void row(const std::string& what, const std::string& size, double ours, double beside,
                const std::string& unit, const std::string& judgement) {
    fmt::print("| {} | {} | {:.4g} {} | {:.4g} {} | {} |\n", what, size, ours, unit, beside, unit,
               judgement);
    std::fflush(stdout);
}

}  // namespace mpi_bridge_test
