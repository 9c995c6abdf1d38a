// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>

#include <gtest/gtest.h>

#include "../schedule_seeds.hpp"
#include "simulation.hpp"

namespace {

TEST(MessageSchedules, DeliverEachMessageOnceInOrderAndNeverGetStuck) {
    const auto [first, count, alone] = schedule_seeds(10000);
    message_schedules::Result all;
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
        const auto result = message_schedules::simulate(seed);
        all.events += result.events;
        all.received += result.received;
        all.cancelled += result.cancelled;
        all.given_up += result.given_up;
        all.mismatched += result.mismatched;
        all.left_behind += result.left_behind;
        all.straight += result.straight;
        ASSERT_EQ(result.fault, "") << "MPI_BRIDGE_SCHEDULE_SEED=" << seed;
    }
    std::printf(
        "%lu schedules, %d events: %d messages received, %d cancelled, %d given up, %d mismatched, "
        "%d left behind, %d straight into posted memory\n",
        static_cast<unsigned long>(count), all.events, all.received, all.cancelled, all.given_up,
        all.mismatched, all.left_behind, all.straight);
    if (alone) return;
    // Otherwise the schedules would show little.
    const auto number = static_cast<int>(count);
    EXPECT_GT(all.received, 3 * number);
    EXPECT_GT(all.cancelled, number / 10);
    EXPECT_GT(all.given_up, number / 10);
    EXPECT_GT(all.mismatched, number / 10);
    EXPECT_GT(all.left_behind, number / 10);
    EXPECT_GT(all.straight, number / 10);
}

}  // namespace
