// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <string>

#include <gtest/gtest.h>

#include "../../schedule_seeds.hpp"
#include "program.hpp"
#include "simulation.hpp"

namespace {

TEST(Schedules, EndAlikeOnAllRanksAndNeverGetStuck) {
    const auto [first, count, alone] = schedule_seeds(4000);
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
