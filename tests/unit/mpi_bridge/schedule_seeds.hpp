// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>

// The seeds of a test that runs many schedules of simulated ranks, and names the seed of one that
// fails. MPI_BRIDGE_SCHEDULES says how many there are, MPI_BRIDGE_SCHEDULE_SEED which one runs
// alone.
struct ScheduleSeeds {
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    bool alone = false;
};

// Under a sanitizer, where a schedule takes many times as long, a tenth of `usual_count` runs.
inline ScheduleSeeds schedule_seeds(std::uint64_t usual_count) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    usual_count /= 10;
#endif
    const auto number = [](const char* text) { return std::strtoull(text, nullptr, 10); };
    if (const char* const seed = std::getenv("MPI_BRIDGE_SCHEDULE_SEED"))
        return {.first = number(seed), .count = 1, .alone = true};
    const char* const count = std::getenv("MPI_BRIDGE_SCHEDULES");
    return {.count = count == nullptr ? usual_count : number(count)};
}
