// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <deque>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/mpi_bridge/engine/ranks.hpp"

namespace {

using namespace mpi_bridge_test;
using mpi_bridge::Seconds;

void run_steps(Ranks::Rank& rank, int steps, float ranks) {
    for (int step = 0; step < steps; ++step) {
        Floats tensor("x", {1, 1});
        const auto done = rank.engine().call(tensor.made());
        ASSERT_TRUE(done) << done.error().text;
        ASSERT_EQ(tensor.recv[0], ranks);
    }
}

// A rank that is gone, before the engine has been used, while it negotiates, and with a plan.
TEST(EngineFailure, OfAPeerEndsEveryRankInBoundedTime) {
    for (const int steps : {1, 8}) {
        Ranks ranks(3);
        ranks.run([&](Ranks::Rank& rank) {
            run_steps(rank, steps, 3);
            if (rank.rank() == 2) {
                rank.transport().abandon();
                return;
            }
            Floats tensor("x", {1, 1});
            const auto done = rank.engine().call(tensor.made());
            ASSERT_FALSE(done);
            EXPECT_EQ(done.error().status, MPIB_ERROR_PEER_LOST) << done.error().text;
            EXPECT_NE(done.error().text.find("rank"), std::string::npos) << done.error().text;
            // And so does everything after it.
            Floats later("later", {1});
            const auto refused = rank.engine().submit(later.made());
            ASSERT_FALSE(refused);
            EXPECT_EQ(refused.error().status, MPIB_ERROR_PEER_LOST);
        });
        for (int rank = 0; rank < 2; ++rank) {
            // Operations fail a moment before the connections are broken.
            EXPECT_TRUE(ranks.at(rank).engine().shutdown());
            EXPECT_EQ(ranks.at(rank).failures().size(), 1U);
        }
    }
}

TEST(EngineFailure, SeenElsewhereFailsWhatIsInFlight) {
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        run_steps(rank, 6, 2);
        if (rank.rank() == 1) return;
        Floats planned("x", {1, 1});
        Floats other("other", {1});
        const auto first = submit(rank.engine(), other.made());
        const auto second = submit(rank.engine(), planned.made());
        rank.failure().fail({MPIB_ERROR_TIMEOUT, "a blocking call failed"});
        for (const mpib_handle handle : {first, second}) {
            const auto done = finish(rank.engine(), handle);
            ASSERT_FALSE(done);
        }
        const auto late = rank.engine().submit(planned.made());
        ASSERT_FALSE(late);
        EXPECT_EQ(late.error().status, MPIB_ERROR_TIMEOUT);
        EXPECT_EQ(late.error().text, "a blocking call failed");
    });
}

// Threads that look all the time see an operation end while it is being failed.
TEST(EngineFailure, IsNeverTakenForAResult) {
    constexpr int times = 100;
    constexpr std::size_t lookers = 4;
    for (int time = 0; time < times; ++time) {
        Ranks ranks(2);
        ranks.run([&](Ranks::Rank& rank) {
            run_steps(rank, 1, 2);
            if (rank.rank() == 1) return;
            std::deque<Floats> tensors;
            std::vector<mpib_handle> handles;
            for (std::size_t looker = 0; looker < lookers; ++looker)
                tensors.emplace_back("only here " + std::to_string(looker), std::vector{1.0F});
            for (Floats& tensor : tensors)
                handles.push_back(submit(rank.engine(), tensor.made()));
            std::atomic<int> looking{0};
            std::vector<std::thread> threads;
            for (const mpib_handle handle : handles) {
                threads.emplace_back([&rank, &looking, handle] {
                    ++looking;
                    while (!rank.engine().poll(handle).value()) {
                    }
                    EXPECT_FALSE(rank.engine().wait(handle, 0));
                });
            }
            while (looking < static_cast<int>(lookers))
                std::this_thread::yield();
            rank.failure().fail({MPIB_ERROR_PEER_LOST, "rank 1 is lost"});
            for (std::thread& thread : threads)
                thread.join();
            for (const mpib_handle handle : handles)
                (void)rank.engine().release(handle);
        });
    }
}

TEST(EngineFailure, IsWhatComesOfARankThatDoesNotSubmit) {
    Wishes wishes;
    wishes.timeout = Seconds(3.0);
    wishes.settings.stall.report = Seconds(0.2);
    std::atomic<int> gave_up{0};
    testing::internal::CaptureStderr();
    {
        Ranks ranks(3, wishes);
        ranks.run([&](Ranks::Rank& rank) {
            run_steps(rank, 1, 3);
            if (rank.rank() == 1) {
                while (gave_up != 2)
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
                return;
            }
            Floats tensor("lonely", {1});
            const auto done = rank.engine().call(tensor.made());
            ++gave_up;
            ASSERT_FALSE(done);
            // The first rank to give up knows why; the other may see it go.
            if (done.error().status == MPIB_ERROR_TIMEOUT) {
                EXPECT_NE(done.error().text.find("lonely"), std::string::npos);
                EXPECT_NE(done.error().text.find("1 did not submit it"), std::string::npos)
                    << done.error().text;
            } else {
                EXPECT_EQ(done.error().status, MPIB_ERROR_PEER_LOST) << done.error().text;
            }
        });
    }
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_NE(text.find("\"lonely\" (allreduce, 4 bytes): missing on rank 1"), std::string::npos)
        << text;
}

// Breaks when each rank's question makes all others report once more.
TEST(EngineFailure, IsPrecededByOneReportAtATime) {
    Wishes wishes;
    wishes.timeout = Seconds(5.0);
    wishes.settings.stall.report = Seconds(1.0);
    std::atomic<int> gave_up{0};
    testing::internal::CaptureStderr();
    {
        Ranks ranks(4, wishes);
        ranks.run([&](Ranks::Rank& rank) {
            run_steps(rank, 1, 4);
            if (rank.rank() == 3) {
                while (gave_up != 3)
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
                return;
            }
            // Each rank wants to know at another time what is missing.
            std::this_thread::sleep_for(std::chrono::milliseconds(150 * rank.rank()));
            Floats tensor("lonely", {1});
            EXPECT_FALSE(rank.engine().call(tensor.made()));
            ++gave_up;
        });
    }
    std::istringstream text(testing::internal::GetCapturedStderr());
    std::set<std::string> lines;
    std::set<std::string> ranks;
    for (std::string line; std::getline(text, line);) {
        if (line.find("missing on rank 3") == std::string::npos) continue;
        // The next report of the same rank comes a second later.
        EXPECT_TRUE(lines.insert(line).second) << line;
        ranks.insert(line.substr(0, line.find(" 1 operation")));
    }
    EXPECT_EQ(ranks.size(), 3U);
}

// Breaks when a rank that has never used the engine takes part in nothing, not even in the question
// what is missing.
TEST(EngineFailure, IsPrecededByAReportOfARankThatDoesNotComeToTheFirstOperation) {
    Wishes wishes;
    wishes.timeout = Seconds(2.0);
    wishes.settings.stall.report = Seconds(0.2);
    std::atomic<int> gave_up{0};
    testing::internal::CaptureStderr();
    {
        Ranks ranks(3, wishes);
        ranks.run([&](Ranks::Rank& rank) {
            if (rank.rank() == 1) {
                // As the heartbeat does.
                rank.engine().start();
                while (gave_up != 2)
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
                return;
            }
            Floats tensor("first", {1});
            EXPECT_FALSE(rank.engine().call(tensor.made()));
            ++gave_up;
        });
    }
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_NE(text.find("\"first\" (allreduce, 4 bytes): missing on rank 1"), std::string::npos)
        << text;
}

// Python waits so, because it looks for signals in between.
TEST(EngineFailure, EndsAWaitInShortPiecesToo) {
    Wishes wishes;
    wishes.timeout = Seconds(0.5);
    std::atomic<int> timeouts{0};
    std::atomic<bool> gave_up{false};
    Ranks ranks(2, wishes);
    ranks.run([&](Ranks::Rank& rank) {
        if (rank.rank() == 1) {
            for (int i = 0; i < 20'000 && !gave_up; ++i)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            return;
        }
        Floats tensor("lonely", {1});
        const mpib_handle handle = submit(rank.engine(), tensor.made());
        while (!rank.engine().poll(handle).value())
            (void)rank.engine().wait(handle, 0.05);
        const auto done = rank.engine().wait(handle, 0.05);
        ASSERT_FALSE(done);
        if (done.error().status == MPIB_ERROR_TIMEOUT) ++timeouts;
        (void)rank.engine().release(handle);
        gave_up = true;
    });
    EXPECT_EQ(timeouts, 1);
}

TEST(EngineFailure, AWaitMayEndBeforeTheOperation) {
    Ranks ranks(2);
    std::atomic<bool> waited{false};
    ranks.run([&](Ranks::Rank& rank) {
        Floats tensor("x", {1});
        if (rank.rank() == 1) {
            while (!waited)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            ASSERT_TRUE(rank.engine().call(tensor.made()));
            return;
        }
        const auto handle = submit(rank.engine(), tensor.made());
        const auto early = rank.engine().wait(handle, 0.05);
        ASSERT_FALSE(early);
        EXPECT_EQ(early.error().status, MPIB_ERROR_TIMEOUT);
        EXPECT_NE(early.error().text.find("goes on"), std::string::npos);
        waited = true;
        ASSERT_TRUE(finish(rank.engine(), handle));
        EXPECT_EQ(tensor.recv[0], 2);
    });
}

// Breaks when the waiting thread goes into the collective of a planned bucket, or when nobody does.
TEST(EngineFailure, AWaitForAPlannedOperationMayEndBeforeIt) {
    Ranks ranks(2);
    std::atomic<bool> waited{false};
    ranks.run([&](Ranks::Rank& rank) {
        run_steps(rank, 6, 2);
        Floats tensor("x", {1, 1});
        if (rank.rank() == 1) {
            while (!waited)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            ASSERT_TRUE(rank.engine().call(tensor.made()));
            return;
        }
        EXPECT_GT(rank.counters().planned_buckets, 0U);
        tensor.operation.flags = MPIB_WAITED_FOR;
        const auto handle = submit(rank.engine(), tensor.made());
        const auto early = rank.engine().wait(handle, 0.05);
        ASSERT_FALSE(early);
        EXPECT_EQ(early.error().status, MPIB_ERROR_TIMEOUT);
        waited = true;
        mpi_bridge::Done done;
        for (int look = 0; look < 200 && !(done = rank.engine().wait(handle, 0.05)); ++look) {
        }
        EXPECT_TRUE(done);
        ASSERT_TRUE(finish(rank.engine(), handle));
        EXPECT_EQ(tensor.recv[0], 2);
    });
}

TEST(EngineShutdown, FailsWhatIsInFlightAndSaysSo) {
    for (const int steps : {0, 6}) {
        Ranks ranks(2);
        ranks.run([&](Ranks::Rank& rank) {
            run_steps(rank, steps, 2);
            if (rank.rank() == 1) return;
            Floats planned("x", {1, 1});
            Floats other("other", {1});
            const auto first = submit(rank.engine(), other.made());
            const auto second = submit(rank.engine(), planned.made());
            std::thread waiting([&] {
                const auto done = rank.engine().wait(first, 0);
                ASSERT_FALSE(done);
                EXPECT_NE(done.error().text.find("mpib_finalize"), std::string::npos)
                    << done.error().text;
            });
            EXPECT_TRUE(rank.engine().shutdown());
            waiting.join();
            EXPECT_FALSE(rank.engine().wait(second, 0));
            EXPECT_FALSE(rank.engine().submit(other.made()));
        });
    }
}

TEST(EngineShutdown, WorksAHundredTimes) {
    for (int round = 0; round < 100; ++round) {
        Ranks ranks(2);
        ranks.run([&](Ranks::Rank& rank) {
            run_steps(rank, round % 7, 2);
            EXPECT_TRUE(rank.engine().shutdown());
        });
        for (int rank = 0; rank < 2; ++rank)
            EXPECT_TRUE(ranks.at(rank).failures().empty()) << ranks.at(rank).failures().front();
        EXPECT_EQ(ranks.post().left_over(), 0U);
    }
}

TEST(EngineShutdown, OfAnEngineThatWasNeverUsedNeedsNoThread) {
    Ranks ranks(2);
    EXPECT_TRUE(ranks.at(0).engine().shutdown());
    Floats tensor("x", {1});
    EXPECT_FALSE(ranks.at(0).engine().submit(tensor.made()));
}

}  // namespace
