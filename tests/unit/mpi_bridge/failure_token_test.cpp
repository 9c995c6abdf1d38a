// SPDX-License-Identifier: Apache-2.0
#include "core/failure_token.hpp"

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace {

using mpi_bridge::Failure;
using mpi_bridge::FailureToken;

TEST(FailureToken, TellsAllWhoWatchOfTheFirstFailureOnce) {
    FailureToken token;
    EXPECT_FALSE(token.failed());
    std::string told;
    const FailureToken::Watch first(token, [&](const Failure& cause) { told += "1" + cause.text; });
    const FailureToken::Watch second(token,
                                     [&](const Failure& cause) { told += "2" + cause.text; });
    EXPECT_EQ(token.fail({MPIB_ERROR_TIMEOUT, "late"}).text, "late");
    EXPECT_EQ(told, "1late2late");
    EXPECT_TRUE(token.failed());
    EXPECT_EQ(token.fail({MPIB_ERROR_MISMATCH, "other"}).text, "late");
    EXPECT_EQ(token.cause().status, MPIB_ERROR_TIMEOUT);
    EXPECT_EQ(told, "1late2late");
}

TEST(FailureToken, TellsAtOnceWhoComesLater) {
    FailureToken token;
    token.fail({MPIB_ERROR_TIMEOUT, "late"});
    std::string told;
    const FailureToken::Watch watch(token, [&](const Failure& cause) { told += cause.text; });
    EXPECT_EQ(told, "late");
}

TEST(FailureToken, DoesNotTellWhoNoLongerWatches) {
    FailureToken token;
    int told = 0;
    std::optional<FailureToken::Watch> watch;
    watch.emplace(token, [&](const Failure&) { ++told; });
    watch.reset();
    token.fail({MPIB_ERROR_TIMEOUT, "late"});
    EXPECT_EQ(told, 0);
}

// A token that fails on another thread, with a watcher that takes its time over it.
class SlowTelling {
  public:
    ~SlowTelling() { failing_.join(); }
    SlowTelling() {
        watch.emplace(token, [this](const Failure&) {
            EXPECT_EQ(token.fail({MPIB_ERROR_INTERNAL, "of a watcher"}).text, "late");
            entered_ = true;
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            left = true;
        });
        failing_ = std::thread([this] { token.fail({MPIB_ERROR_TIMEOUT, "late"}); });
        while (!entered_)
            std::this_thread::yield();
    }
    SlowTelling(const SlowTelling&) = delete;
    SlowTelling& operator=(const SlowTelling&) = delete;

    FailureToken token;
    std::atomic<bool> left{false};  // by the watcher
    std::optional<FailureToken::Watch> watch;

  private:
    std::atomic<bool> entered_{false};
    std::thread failing_;
};

// A watcher uses what is destroyed after the watch.
TEST(FailureToken, EndsAWatchOnlyWhenItsWatcherHasReturned) {
    SlowTelling telling;
    telling.watch.reset();
    EXPECT_TRUE(telling.left);
}

// Breaks when a failed call returns while another thread has still to end what uses its memory.
TEST(FailureToken, ReturnsToEveryCallerOnceAllAreTold) {
    SlowTelling telling;
    EXPECT_EQ(telling.token.fail({MPIB_ERROR_MISMATCH, "other"}).text, "late");
    EXPECT_TRUE(telling.left);
}

TEST(FailureToken, CountsOneOfManyFailuresAtATime) {
    for (int round = 0; round < 50; ++round) {
        FailureToken token;
        std::atomic<int> told{0};
        const FailureToken::Watch watch(token, [&](const Failure&) { ++told; });
        std::vector<std::thread> threads;
        std::vector<std::string> causes(8);
        for (std::size_t each = 0; each < causes.size(); ++each) {
            threads.emplace_back([&, each] {
                causes[each] = token.fail({MPIB_ERROR_INTERNAL, std::to_string(each)}).text;
            });
        }
        for (auto& thread : threads)
            thread.join();
        EXPECT_EQ(told, 1);
        for (const auto& cause : causes)
            EXPECT_EQ(cause, token.cause().text);
    }
}

TEST(FailureToken, EnquiresAboutALostRankOnly) {
    FailureToken token;
    int asked = 0;
    token.enquire_with([&](Failure failure) {
        ++asked;
        failure.text = "rank 3 failed: it ran out of memory";
        return failure;
    });
    EXPECT_EQ(token
                  .fail({.status = MPIB_ERROR_PEER_LOST,
                         .text = "rank 3 (the connection broke)",
                         .of_rank = 3})
                  .text,
              "rank 3 failed: it ran out of memory");
    EXPECT_EQ(asked, 1);
    FailureToken own;
    own.enquire_with([&](Failure failure) {
        ++asked;
        return failure;
    });
    own.fail({MPIB_ERROR_INTERNAL, "out of memory"});
    EXPECT_EQ(asked, 1);
}

}  // namespace
