// SPDX-License-Identifier: Apache-2.0
//
// Many schedules of simulated ranks. MPI_BRIDGE_SCHEDULES says how many, MPI_BRIDGE_SCHEDULE_SEED
// which one to run alone; a failure names the seed.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "program.hpp"
#include "simulation.hpp"

namespace {

// Under a sanitizer a schedule takes some thirty times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t usual_count = 400;
#else
constexpr std::uint64_t usual_count = 4000;
#endif

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
    const char* const text = std::getenv(variable);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(Schedules, EndAlikeOnAllRanksAndNeverGetStuck) {
    const bool alone = std::getenv("MPI_BRIDGE_SCHEDULE_SEED") != nullptr;
    const std::uint64_t first = number_from("MPI_BRIDGE_SCHEDULE_SEED", 0);
    const std::uint64_t count = alone ? 1 : number_from("MPI_BRIDGE_SCHEDULES", usual_count);
    std::uint64_t plans = 0;
    std::uint64_t planned = 0;
    std::uint64_t events = 0;
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
        const auto program = schedules::make_program(seed);
        const auto result = schedules::simulate(program, seed);
        plans += static_cast<std::uint64_t>(result.plans);
        planned += static_cast<std::uint64_t>(result.planned);
        events += static_cast<std::uint64_t>(result.events);
        ASSERT_EQ(result.fault, "") << "MPI_BRIDGE_SCHEDULE_SEED=" << seed << "\n"
                                    << schedules::shown(program);
    }
    std::printf("%lu schedules: %lu events, %lu plans, %lu planned buckets\n",
                static_cast<unsigned long>(count), static_cast<unsigned long>(events),
                static_cast<unsigned long>(plans), static_cast<unsigned long>(planned));
    if (!alone) {
        // Without plans the schedules would show nothing about them.
        EXPECT_GT(plans, count / 10);
        EXPECT_GT(planned, count);
    }
}

}  // namespace
