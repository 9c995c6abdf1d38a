// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/deadline.hpp"

namespace mpi_bridge_test {

inline constexpr int warm_ups = 5;

// Set by --short, with which a program only tries that its parts work.
inline bool is_short = false;

// How often to repeat a measurement that usually takes so many rounds.
inline int rounds_of(int usual) {
    return is_short ? 1 : usual;
}

// The sizes to measure, in bytes.
inline std::vector<std::size_t> sizes_of(std::vector<std::size_t> usual) {
    constexpr std::size_t longest_short = std::size_t{1} << 20;
    if (is_short) std::erase_if(usual, [](std::size_t bytes) { return bytes > longest_short; });
    return usual;
}

// Reads the arguments of main(); false if there are others than --short.
inline bool read_arguments(std::span<char*> arguments) {
    for (const std::string_view argument : arguments.subspan(1)) {
        if (argument != "--short") {
            fmt::print(stderr, "{}: unknown argument {}\nusage: {} [--short]\n", arguments[0],
                       argument, arguments[0]);
            return false;
        }
        is_short = true;
    }
    return true;
}

inline double median(std::vector<double> times) {
    std::ranges::sort(times);
    return times[times.size() / 2];
}

// Seconds as the host sees them, from the call to the known end.
inline double host_seconds(int rounds, const std::function<void()>& work) {
    std::vector<double> times;
    for (int round = 0; round < warm_ups + rounds_of(rounds); ++round) {
        const auto begin = mpi_bridge::Clock::now();
        work();
        const mpi_bridge::Seconds passed = mpi_bridge::Clock::now() - begin;
        if (round >= warm_ups) times.push_back(passed.count());
    }
    return median(times);
}

// The end of a row whose aim is known; run looks for the word in bold.
inline std::string judged(const std::string& what, const std::string& aim, bool is_met) {
    return fmt::format("{} (aim: {}: {})", what, aim, is_met ? "met" : "**missed**");
}

// How long an allreduce takes more than ncclAllReduce itself, both in microseconds.
inline std::string judged_beside_nccl(double ours, double theirs, std::size_t bytes) {
    const double more = ours - theirs;
    const double percent = 100 * (ours / theirs - 1);
    const std::string found = fmt::format("{:+.2f} µs, {:+.1f} %", more, percent);
    constexpr std::size_t long_bytes = std::size_t{16} << 20;
    if (bytes >= long_bytes) return judged(found, "2 %", percent <= 2);
    return judged(found, "5 µs", more <= 5);
}

inline void row(const std::string& what, const std::string& size, double ours, double beside,
                const std::string& unit, const std::string& judgement) {
    fmt::print("| {} | {} | {:.4g} {} | {:.4g} {} | {} |\n", what, size, ours, unit, beside, unit,
               judgement);
    std::fflush(stdout);
}

}  // namespace mpi_bridge_test
