// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/output/terminal.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <optional>

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

namespace batchai::cli {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// Breaks when what a node, an image or another user has written acts on the terminal.
TEST(Say, ShowsNothingThatATerminalObeys) {
    testing::internal::CaptureStderr();
    say("a\x1b[31m\xC2\x9b"
        "31m\x9b"
        "31m\ttab\nline");
    warn("\xC2\x85\r\xE2\x80\xAE");
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "batchai: a\uFFFD[31m\uFFFD31m\uFFFD31m\ttab\nline\n"
              "batchai: warning: \uFFFD\uFFFD\uFFFD\n");
}

// Breaks when a Ctrl-C between the look at the flag and the wait is lost: the wait has no end then.
TEST(Interruption, EndsAWaitThatBeginsAfterIt) {
    const Interruption interruption;
    raise(SIGINT);
    EXPECT_EQ(Interruption::poll({}, std::nullopt), -1);
    EXPECT_EQ(errno, EINTR);
    Interruption::sleep(hours(1));
    EXPECT_TRUE(Interruption::requested());
}

TEST(Interruption, EndsAWait) {
    const Interruption interruption;
    struct sigevent event {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGINT;
    timer_t timer{};
    ASSERT_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    const itimerspec soon{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = 50'000'000}};
    ASSERT_EQ(timer_settime(timer, 0, &soon, nullptr), 0);
    EXPECT_EQ(Interruption::poll({}, std::nullopt), -1);
    EXPECT_TRUE(Interruption::requested());
    timer_delete(timer);
}

TEST(Interruption, LetsAWaitSeeInputAndTime) {
    const Interruption interruption;
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    std::array<pollfd, 1> input{{{.fd = pipe[0], .events = POLLIN, .revents = 0}}};
    EXPECT_EQ(Interruption::poll(input, milliseconds(1)), 0);
    ASSERT_EQ(write(pipe[1], "x", 1), 1);
    EXPECT_EQ(Interruption::poll(input, std::nullopt), 1);
    EXPECT_EQ(input[0].revents, POLLIN);
    close(pipe[0]);
    close(pipe[1]);
}

TEST(Interruption, IsForgottenOnce) {
    const Interruption interruption;
    raise(SIGINT);
    Interruption::forget();
    EXPECT_FALSE(Interruption::requested());
    EXPECT_EQ(Interruption::poll({}, milliseconds(1)), 0);
    raise(SIGINT);
    EXPECT_TRUE(Interruption::requested());
}

}  // namespace
}  // namespace batchai::cli
