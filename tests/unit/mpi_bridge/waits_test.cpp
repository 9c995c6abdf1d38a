// SPDX-License-Identifier: Apache-2.0
#include "core/waits.hpp"

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace {

using mpi_bridge::Waits;

TEST(Waits, AreSeenWhileTheyLast) {
    Waits waits;
    EXPECT_TRUE(waits.now().empty());
    std::optional<Waits::Waiting> wait;
    for (const auto lane : {Waits::Lane::direct, Waits::Lane::negotiation, Waits::Lane::engine}) {
        wait.emplace(&waits, 7, lane);
        ASSERT_EQ(waits.now().size(), 1U);
        EXPECT_EQ(waits.now()[0].rank, 7);
        EXPECT_EQ(waits.now()[0].lane, lane);
    }
    const auto first = waits.now();
    wait->go_on_for(9);
    const auto second = waits.now();
    ASSERT_EQ(second.size(), 1U);
    EXPECT_EQ(second[0].rank, 9);
    EXPECT_EQ(second[0].serial, first[0].serial);
    wait.reset();
    EXPECT_TRUE(waits.now().empty());
}

TEST(Waits, AreToldFromLaterOnesForTheSameRank) {
    Waits waits;
    std::optional<Waits::Waiting> wait;
    wait.emplace(&waits, 1, Waits::Lane::direct);
    const auto first = waits.now();
    wait.reset();
    wait.emplace(&waits, 1, Waits::Lane::direct);
    const auto second = waits.now();
    ASSERT_EQ(first.size(), 1U);
    ASSERT_EQ(second.size(), 1U);
    EXPECT_EQ(first[0].place, second[0].place);
    EXPECT_NE(first[0].serial, second[0].serial);
}

TEST(Waits, OfManyThreadsAtATimeAreAllSeenAndMoreThanThereArePlacesDoNoHarm) {
    for (const int threads_count : {8, 100}) {
        Waits waits;
        std::atomic<int> waiting{0};
        std::atomic<bool> end{false};
        std::vector<std::thread> threads;
        for (int rank = 0; rank < threads_count; ++rank) {
            threads.emplace_back([&, rank] {
                const Waits::Waiting wait(&waits, rank, Waits::Lane::direct);
                ++waiting;
                while (!end)
                    std::this_thread::yield();
            });
        }
        while (waiting != threads_count)
            std::this_thread::yield();
        EXPECT_EQ(waits.now().size(), threads_count == 8 ? 8U : 64U);
        end = true;
        for (auto& thread : threads)
            thread.join();
        EXPECT_TRUE(waits.now().empty());
    }
}

TEST(Waits, MayBeEnteredNowhere) {
    Waits::Waiting wait(nullptr, 1, Waits::Lane::direct);
    wait.go_on_for(2);
}

}  // namespace
