// SPDX-License-Identifier: Apache-2.0
#include "trace/counters.hpp"

#include <cstddef>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "trace/bus_bytes.hpp"

namespace mpi_bridge {
namespace {

using std::chrono::nanoseconds;

mpib_counters read(const Counters& counters) {
    mpib_counters now{};
    now.struct_bytes = sizeof now;
    EXPECT_TRUE(counters.read(now));
    return now;
}

TEST(BusBytes, FollowTheFactorsOfNcclTests) {
    EXPECT_EQ(bus_bytes(MPIB_ALLREDUCE, 4, 1000), 1500U);
    EXPECT_EQ(bus_bytes(MPIB_ALLREDUCE, 2, 1000), 1000U);
    EXPECT_EQ(bus_bytes(MPIB_ALLGATHER, 4, 1000), 750U);
    EXPECT_EQ(bus_bytes(MPIB_REDUCE_SCATTER, 4, 1000), 750U);
    EXPECT_EQ(bus_bytes(MPIB_ALLTOALL, 4, 1000), 750U);
    EXPECT_EQ(bus_bytes(MPIB_BROADCAST, 4, 1000), 1000U);
    EXPECT_EQ(bus_bytes(MPIB_REDUCE, 4, 1000), 1000U);
    EXPECT_EQ(bus_bytes(MPIB_BARRIER, 4, 1000), 0U);
    EXPECT_EQ(bus_bytes(MPIB_JOIN, 4, 1000), 0U);
}

TEST(BusBytes, OfOneRankAreNone) {
    for (int kind = 0; kind < MPIB_KIND_COUNT; ++kind)
        EXPECT_EQ(bus_bytes(static_cast<mpib_kind>(kind), 1, 1000), 0U) << kind;
}

TEST(BusBytes, AreRoundedDownOnce) {
    // 2 * 5 * 2 / 3 = 6.67 and 5 * 2 / 3 = 3.33
    EXPECT_EQ(bus_bytes(MPIB_ALLREDUCE, 3, 5), 6U);
    EXPECT_EQ(bus_bytes(MPIB_ALLGATHER, 3, 5), 3U);
}

TEST(BusBytes, DoNotOverflow) {
    constexpr std::uint64_t huge = std::uint64_t{1} << 62;
    EXPECT_EQ(bus_bytes(MPIB_ALLTOALL, 1024, huge), huge / 1024 * 1023);
}

TEST(Counters, BeginAtZero) {
    const mpib_counters now = read(Counters());
    mpib_counters zero{};
    zero.struct_bytes = sizeof zero;
    EXPECT_EQ(std::memcmp(&now, &zero, sizeof zero), 0);
}

TEST(Counters, PutEachNumberInItsPlace) {
    Counters counters;
    counters.add_operation(MPIB_ALLREDUCE, 100, true);
    counters.add_operation(MPIB_ALLREDUCE, 11, true);
    counters.add_operation(MPIB_BROADCAST, 7, false);
    counters.add_collective(MPIB_ALLGATHER, 30, nanoseconds(5));
    counters.add_negotiation(nanoseconds(3));
    counters.add_negotiation(nanoseconds(4));
    counters.add_queued(nanoseconds(10));
    counters.add_pack(nanoseconds(20));
    counters.add_unpack(nanoseconds(40));
    counters.add_planned_bucket();
    counters.add_plan_made();
    counters.add_plan_made();
    counters.add_plan_broken();
    const mpib_counters now = read(counters);
    EXPECT_EQ(now.operations[MPIB_ALLREDUCE], 2U);
    EXPECT_EQ(now.bytes[MPIB_ALLREDUCE], 111U);
    EXPECT_EQ(now.failures[MPIB_ALLREDUCE], 0U);
    EXPECT_EQ(now.operations[MPIB_BROADCAST], 0U);
    EXPECT_EQ(now.bytes[MPIB_BROADCAST], 0U);
    EXPECT_EQ(now.failures[MPIB_BROADCAST], 1U);
    EXPECT_EQ(now.collectives[MPIB_ALLGATHER], 1U);
    EXPECT_EQ(now.bus_bytes[MPIB_ALLGATHER], 30U);
    EXPECT_EQ(now.transfer_nanoseconds[MPIB_ALLGATHER], 5U);
    EXPECT_EQ(now.negotiation_rounds, 2U);
    EXPECT_EQ(now.negotiation_nanoseconds, 7U);
    EXPECT_EQ(now.queued_nanoseconds, 10U);
    EXPECT_EQ(now.pack_nanoseconds, 20U);
    EXPECT_EQ(now.unpack_nanoseconds, 40U);
    EXPECT_EQ(now.planned_buckets, 1U);
    EXPECT_EQ(now.plans_made, 2U);
    EXPECT_EQ(now.plans_broken, 1U);
}

TEST(Counters, TakeTimeThatRanBackwardsForNone) {
    Counters counters;
    counters.add_queued(nanoseconds(-5));
    EXPECT_EQ(read(counters).queued_nanoseconds, 0U);
}

// Breaks when what several operations wait at once counts several times.
TEST(Counters, ShowWhatIsWaitedOnce) {
    Counters counters;
    const Counters::TimePoint begin{std::chrono::seconds(100)};
    const auto at = [&](int second) { return begin + std::chrono::seconds(second); };
    counters.add_waited(at(0), at(1));
    WaitedTable table;
    counters.show_waited(&table);
    EXPECT_EQ(table.sum(), 0U);
    constexpr std::uint64_t second = 1'000'000'000;
    counters.add_waited(at(0), at(3));
    counters.add_waited(at(1), at(5));
    counters.add_waited(at(2), at(4));
    EXPECT_EQ(table.engine, 5 * second);
    counters.add_waited(at(7), at(8));
    counters.add_waited_in_call(std::chrono::seconds(2));
    EXPECT_EQ(table.engine, 6 * second);
    EXPECT_EQ(table.sum(), 8 * second);
    // What threads wait at once counts for each of them.
    std::thread([&] { counters.add_waited(at(0), at(1)); }).join();
    EXPECT_EQ(table.engine, 7 * second);
    counters.show_waited(nullptr);
    counters.add_waited_in_call(std::chrono::seconds(2));
    EXPECT_EQ(table.sum(), 9 * second);
}

TEST(Counters, LoseNothingThatThreadsAddAtOnce) {
    Counters counters;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&counters] {
            for (int i = 0; i < 10000; ++i) {
                counters.add_operation(MPIB_ALLREDUCE, 3, true);
                counters.add_pack(nanoseconds(2));
            }
        });
    }
    for (auto& thread : threads)
        thread.join();
    const mpib_counters now = read(counters);
    EXPECT_EQ(now.operations[MPIB_ALLREDUCE], 40000U);
    EXPECT_EQ(now.bytes[MPIB_ALLREDUCE], 120000U);
    EXPECT_EQ(now.pack_nanoseconds, 80000U);
}

TEST(Counters, FillAnOlderShorterStructOnly) {
    Counters counters;
    counters.add_operation(MPIB_ALLREDUCE, 5, true);
    counters.add_plan_broken();
    mpib_counters older;
    std::memset(&older, 0x55, sizeof older);
    older.struct_bytes = offsetof(mpib_counters, bytes);
    ASSERT_TRUE(counters.read(older));
    EXPECT_EQ(older.struct_bytes, offsetof(mpib_counters, bytes));
    EXPECT_EQ(older.operations[MPIB_ALLREDUCE], 1U);
    EXPECT_EQ(older.bytes[MPIB_ALLREDUCE], 0x5555555555555555U);
    EXPECT_EQ(older.plans_broken, 0x5555555555555555U);
}

TEST(Counters, ZeroWhatOnlyANewerLongerStructHas) {
    struct Newer {
        mpib_counters known;
        std::uint64_t later[2];
    } newer;
    std::memset(&newer, 0x55, sizeof newer);
    newer.known.struct_bytes = sizeof newer;
    Counters counters;
    counters.add_plan_made();
    ASSERT_TRUE(counters.read(newer.known));
    EXPECT_EQ(newer.known.plans_made, 1U);
    EXPECT_EQ(newer.later[0], 0U);
    EXPECT_EQ(newer.later[1], 0U);
}

TEST(Counters, RefuseAStructWithoutItsLength) {
    mpib_counters unset{};
    const Done done = Counters().read(unset);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().status, MPIB_ERROR_INVALID_ARGUMENT);
}

TEST(Counters, GoBackToZero) {
    Counters counters;
    counters.add_operation(MPIB_JOIN, 5, false);
    counters.add_plan_broken();
    counters.reset();
    EXPECT_EQ(read(counters).failures[MPIB_JOIN], 0U);
    EXPECT_EQ(read(counters).plans_broken, 0U);
}

}  // namespace
}  // namespace mpi_bridge
