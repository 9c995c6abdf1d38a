// SPDX-License-Identifier: Apache-2.0
#include "transport/wait/watch.hpp"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace {

using mpi_bridge::Clock;
using mpi_bridge::Deadline;
using mpi_bridge::Seconds;
using mpi_bridge::Watch;

// A source whose events are numbers counted up from outside; each progress() hands out at most one.
class Events {
  public:
    Events() : descriptor_(eventfd(0, EFD_NONBLOCK | EFD_SEMAPHORE)) {}
    Events(const Events&) = delete;
    Events& operator=(const Events&) = delete;
    ~Events() { close(descriptor_); }

    void happen() const { eventfd_write(descriptor_, 1); }

    // With the watch's mutex held.
    [[nodiscard]] int seen() const { return seen_; }

    [[nodiscard]] Watch::Source source() {
        const auto progress = [this] {
            eventfd_t value = 0;
            if (eventfd_read(descriptor_, &value) != 0) return false;
            ++seen_;
            return true;
        };
        return {progress, [] { return true; }, descriptor_, {}};
    }

  private:
    int descriptor_;
    int seen_ = 0;
};

constexpr Seconds long_enough{20};

// Breaks when a sleeper is not woken by the look of another thread, or by the poller's, or when
// nobody polls after the poller has left.
TEST(Watch, EveryThreadSeesItsOwnEvent) {
    for (const bool crowded : {false, true}) {
        Events events;
        Watch watch(events.source(), crowded);
        constexpr int threads = 5;
        std::atomic<int> in_time{0};
        std::vector<std::thread> waiters;
        for (int number = 1; number <= threads; ++number) {
            waiters.emplace_back([&, number] {
                std::unique_lock lock(watch.mutex());
                if (watch.wait(
                        lock, [&] { return events.seen() >= number; }, Deadline::in(long_enough))) {
                    ++in_time;
                }
            });
        }
        for (int number = 1; number <= threads; ++number) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            events.happen();
        }
        for (auto& waiter : waiters)
            waiter.join();
        EXPECT_EQ(in_time, threads);
    }
}

TEST(Watch, AWaitEndsAtItsDeadline) {
    Events events;
    Watch watch(events.source(), false);
    std::unique_lock lock(watch.mutex());
    const auto start = Clock::now();
    EXPECT_FALSE(watch.wait(
        lock, [] { return false; }, Deadline::in(Seconds(0.05))));
    EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(50));
}

// Breaks when a condition that changes without an event of the source is not asked for again.
TEST(Watch, RousedSleepersAskAgain) {
    Events events;
    Watch watch(events.source(), false);
    std::atomic<bool> stop{false};
    bool in_time = false;
    std::thread waiter([&] {
        std::unique_lock lock(watch.mutex());
        in_time = watch.wait(
            lock, [&] { return stop.load(); }, Deadline::in(long_enough));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    stop = true;
    watch.rouse_all();
    waiter.join();
    EXPECT_TRUE(in_time);
}

// Breaks when a thread that waits keeps the mutex from one that wants to post.
TEST(Watch, TheMutexIsFreeWhileAThreadWaits) {
    Events events;
    Watch watch(events.source(), false);
    std::thread waiter([&] {
        std::unique_lock lock(watch.mutex());
        EXPECT_TRUE(watch.wait(
            lock, [&] { return events.seen() == 1; }, Deadline::in(long_enough)));
    });
    for (int post = 0; post < 1000; ++post) {
        const std::lock_guard lock(watch.mutex());
    }
    events.happen();
    waiter.join();
}

TEST(SpinPolicy, ACrowdedHostLooksBriefly) {
    mpi_bridge::SpinPolicy alone(false);
    mpi_bridge::SpinPolicy crowded(true);
    EXPECT_EQ(alone.polls(), mpi_bridge::SpinPolicy::many);
    EXPECT_EQ(crowded.polls(), mpi_bridge::SpinPolicy::few);
    alone.set_crowded(true);
    crowded.set_crowded(false);
    EXPECT_EQ(alone.polls(), mpi_bridge::SpinPolicy::few);
    EXPECT_EQ(crowded.polls(), mpi_bridge::SpinPolicy::many);
}

// Breaks when ranks that a launcher has bound, each to its own processors, count as crowded.
TEST(SpinPolicy, ABoundRankDoesNotCountItsProcessorsForAllOfThem) {
    const auto online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
    cpu_set_t before;
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    if (online < 2 || CPU_COUNT(&before) < online) GTEST_SKIP() << "too few processors";
    EXPECT_FALSE(mpi_bridge::may_be_crowded(online));
    EXPECT_TRUE(mpi_bridge::may_be_crowded(online + 1));
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_FALSE(mpi_bridge::may_be_crowded(online));
    EXPECT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

// Breaks when a wait for a message yields to busy programs, which keep the processor for long.
TEST(SpinWait, BlocksAtOnceOnACrowdedHostIfItsModeSaysSo) {
    mpi_bridge::SpinPolicy crowded(true);
    mpi_bridge::SpinWait blocks(crowded, mpi_bridge::WaitMode::blocks);
    EXPECT_FALSE(blocks.gives_way());
    EXPECT_EQ(blocks.next(), mpi_bridge::SpinWait::Next::block);
    mpi_bridge::SpinWait yields(crowded);
    EXPECT_TRUE(yields.gives_way());
    EXPECT_EQ(yields.next(), mpi_bridge::SpinWait::Next::poll);
    // Where there is room, it looks often.
    mpi_bridge::SpinPolicy alone(false);
    mpi_bridge::SpinWait looks(alone, mpi_bridge::WaitMode::blocks);
    EXPECT_EQ(looks.next(), mpi_bridge::SpinWait::Next::poll);
}

// Breaks when the file of the kernel is misread: two busy threads on one processor must wait.
TEST(SpinPolicy, TheKernelTellsTheTimeWithoutAProcessor) {
    const auto before = mpi_bridge::time_without_processor();
    if (!before) GTEST_SKIP() << "/proc/thread-self/schedstat is not there";
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(static_cast<std::size_t>(sched_getcpu()), &here);
    std::atomic<bool> stop{false};
    std::thread rival([&] {
        sched_setaffinity(0, sizeof here, &here);
        while (!stop) {
        }
    });
    std::chrono::nanoseconds waited{};
    std::thread subject([&] {
        sched_setaffinity(0, sizeof here, &here);
        const auto end = Clock::now() + std::chrono::seconds(10);
        while (Clock::now() < end && waited < std::chrono::milliseconds(1)) {
            waited = mpi_bridge::time_without_processor().value_or(std::chrono::nanoseconds(0));
        }
        stop = true;
    });
    subject.join();
    rival.join();
    EXPECT_GE(waited, std::chrono::milliseconds(1));
}

}  // namespace
