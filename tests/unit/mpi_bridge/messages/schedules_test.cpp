// SPDX-License-Identifier: Apache-2.0
//
// Many schedules of simulated ranks. MPI_BRIDGE_SCHEDULES says how many, MPI_BRIDGE_SCHEDULE_SEED
// which one to run alone; a failure names the seed.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>

#include "simulation.hpp"

namespace {

// Under a sanitizer a schedule takes some ten times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t usual_count = 1000;
#else
constexpr std::uint64_t usual_count = 10000;
#endif

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
    const char* const text = std::getenv(variable);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(MessageSchedules, DeliverEachMessageOnceInOrderAndNeverGetStuck) {
    const bool alone = std::getenv("MPI_BRIDGE_SCHEDULE_SEED") != nullptr;
    const std::uint64_t first = number_from("MPI_BRIDGE_SCHEDULE_SEED", 0);
    const std::uint64_t count = alone ? 1 : number_from("MPI_BRIDGE_SCHEDULES", usual_count);
    message_schedules::Result all;
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
        const auto result = message_schedules::simulate(seed);
        all.events += result.events;
        all.received += result.received;
        all.cancelled += result.cancelled;
        all.given_up += result.given_up;
        all.mismatched += result.mismatched;
        all.left_behind += result.left_behind;
        ASSERT_EQ(result.fault, "") << "MPI_BRIDGE_SCHEDULE_SEED=" << seed;
    }
    std::printf(
        "%lu schedules, %d events: %d messages received, %d cancelled, %d given up, %d mismatched, "
        "%d left behind\n",
        static_cast<unsigned long>(count), all.events, all.received, all.cancelled, all.given_up,
        all.mismatched, all.left_behind);
    if (alone) return;
    // Otherwise the schedules would show little.
    const auto number = static_cast<int>(count);
    EXPECT_GT(all.received, 3 * number);
    EXPECT_GT(all.cancelled, number / 10);
    EXPECT_GT(all.given_up, number / 10);
    EXPECT_GT(all.mismatched, number / 10);
    EXPECT_GT(all.left_behind, number / 10);
}

}  // namespace
