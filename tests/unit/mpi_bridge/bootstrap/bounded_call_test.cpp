// SPDX-License-Identifier: Apache-2.0
#include "core/bounded_call.hpp"

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>

#include <gtest/gtest.h>

namespace {

using mpi_bridge::call_within;
using mpi_bridge::Deadline;
using mpi_bridge::run_within;
using mpi_bridge::Seconds;

TEST(BoundedCall, ReturnsTheResultOfACallThatEnds) {
    EXPECT_EQ(call_within<int>(Deadline::in(Seconds(60)), [] { return 42; }), 42);
}

TEST(BoundedCall, GivesUpOnACallThatDoesNotEndInTime) {
    struct Gate {
        std::mutex mutex;
        std::condition_variable opened;
        bool open = false;
    };
    const auto gate = std::make_shared<Gate>();
    const bool ended = run_within(Deadline::in(Seconds(0.01)), [gate] {
        std::unique_lock lock(gate->mutex);
        gate->opened.wait(lock, [&] { return gate->open; });
    });
    EXPECT_FALSE(ended);
    const std::lock_guard lock(gate->mutex);
    gate->open = true;
    gate->opened.notify_all();
}

TEST(BoundedCall, KeepsSignalsOfTheProgramAwayFromItsThread) {
    const auto blocked = call_within<bool>(Deadline::in(Seconds(60)), [] {
        sigset_t mask;
        pthread_sigmask(SIG_BLOCK, nullptr, &mask);
        return sigismember(&mask, SIGTERM) == 1 && sigismember(&mask, SIGUSR1) == 1 &&
               sigismember(&mask, SIGSEGV) == 0;
    });
    EXPECT_EQ(blocked, true);
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    EXPECT_EQ(sigismember(&mask, SIGTERM), 0);
}

}  // namespace
