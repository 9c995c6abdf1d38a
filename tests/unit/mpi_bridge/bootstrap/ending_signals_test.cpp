// SPDX-License-Identifier: Apache-2.0
//
// Each case ends a process of its own, and looks at how it ended and what it printed.
#include "core/ending_signals.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using mpi_bridge::Seconds;
using mpi_bridge::take_leave_on_signals;
using testing::ExitedWithCode;
using testing::KilledBySignal;

constexpr unsigned long_enough = 60;
constexpr const char* farewell_only = "^farewell\n$";

void say_farewell() {
    std::fputs("farewell\n", stderr);
}

void watch(Seconds patience = Seconds(long_enough)) {
    if (!take_leave_on_signals(say_farewell, patience)) std::_Exit(99);
}

// The farewell runs meanwhile; a process that is still there at the end failed.
[[noreturn]] void carry_on() {
    sleep(long_enough);
    std::_Exit(98);
}

void end_by(int signal) {
    std::signal(signal, SIG_DFL);  // whoever runs the test may ignore it
    watch();
    raise(signal);
    carry_on();
}

class EndingSignalsDeathTest : public testing::TestWithParam<int> {};

TEST_P(EndingSignalsDeathTest, SayFarewellAndEndTheProcessAsTheyWouldHave) {
    EXPECT_EXIT(end_by(GetParam()), KilledBySignal(GetParam()), farewell_only);
}
INSTANTIATE_TEST_SUITE_P(Signals, EndingSignalsDeathTest,
                         testing::Values(SIGTERM, SIGINT, SIGHUP, SIGABRT));

TEST(EndingSignalsDeathTest, CoverAnUncaughtException) {
    const auto fail = [] {
        watch();
        std::set_terminate(std::abort);  // the default prints the exception as well
        std::thread([] { throw std::runtime_error("nobody catches this"); }).join();
    };
    EXPECT_EXIT(fail(), KilledBySignal(SIGABRT), farewell_only);
}

TEST(EndingSignalsDeathTest, LeaveHandlersOfTheProgramAlone) {
    const auto handled = [] {
        std::signal(SIGTERM, [](int) { _exit(7); });
        watch();
        raise(SIGTERM);
        carry_on();
    };
    EXPECT_EXIT(handled(), ExitedWithCode(7), "^$");
    const auto ignored = [] {
        std::signal(SIGINT, SIG_IGN);
        watch();
        raise(SIGINT);
        std::_Exit(8);
    };
    EXPECT_EXIT(ignored(), ExitedWithCode(8), "^$");
}

TEST(EndingSignalsDeathTest, EndInTimeThoughTheFarewellDoesNot) {
    const auto endless = [] {
        if (!take_leave_on_signals([] { carry_on(); }, Seconds(0.05))) std::_Exit(99);
        raise(SIGTERM);
        carry_on();
    };
    EXPECT_EXIT(endless(), KilledBySignal(SIGTERM), "");
}

TEST(EndingSignalsDeathTest, EndTheProcessAtOnceWhenASecondOneComes) {
    const auto impatient = [] {
        if (!take_leave_on_signals([] { carry_on(); }, Seconds(long_enough))) std::_Exit(99);
        raise(SIGTERM);
        raise(SIGINT);
        carry_on();
    };
    EXPECT_EXIT(impatient(), KilledBySignal(SIGINT), "");
}

TEST(EndingSignalsDeathTest, DoNotSayFarewellForAForkedChild) {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer never runs signal handlers in the child of a process with "
                    "threads";
#endif
    const auto parent = [] {
        watch();
        const pid_t child = fork();
        if (child == 0) {
            raise(SIGTERM);
            carry_on();
        }
        int status = 0;
        waitpid(child, &status, 0);
        std::_Exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM ? 0 : 1);
    };
    EXPECT_EXIT(parent(), ExitedWithCode(0), "^$");
}

}  // namespace
