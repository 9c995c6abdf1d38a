// SPDX-License-Identifier: Apache-2.0
//
// A wait calls the program's hook, and ends what cannot be left.
#include "core/interruption.hpp"

#include <thread>

#include <gtest/gtest.h>

namespace mpi_bridge {
namespace {

// What the hook of a test has seen, and what it answers.
struct Program {
    int calls = 0;
    int answer = 0;
    FailureToken failure;

    Program() {
        Interruption::set_hook(
            [](void* context) {
                auto& program = *static_cast<Program*>(context);
                ++program.calls;
                return program.answer;
            },
            this);
    }
    ~Program() { Interruption::set_hook(nullptr, nullptr); }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;
};

// Looks as a wait does, until `over`.
template <typename Over>
void wait_until(Over&& over) {
    while (!over()) {
        std::this_thread::sleep_until(Interruption::next_look());
        Interruption::look();
    }
}

// Breaks when a wait never calls the hook, or calls it all the time.
TEST(Interruption, AWaitCallsTheHookNowAndThen) {
    Program program;
    const Interruption interruption(program.failure, 0);
    Interruption::look();
    EXPECT_EQ(program.calls, 0) << "at the beginning of the wait";
    wait_until([&] { return program.calls == 2; });
    EXPECT_FALSE(interruption.asked());
    EXPECT_FALSE(program.failure.failed());
}

// Breaks when a thread of the library, or one without a hook, looks for what is not there.
TEST(Interruption, NothingIsToBeDoneWithoutACallOrAHook) {
    EXPECT_EQ(Interruption::next_look(), Clock::time_point::max());
    Interruption::look();
    FailureToken failure;
    const Interruption interruption(failure, 0);
    EXPECT_EQ(Interruption::next_look(), Clock::time_point::max());
    Interruption::look();
}

// Breaks when a thread that cannot leave waits for ever, or when the others do not learn why.
TEST(Interruption, WhatCannotBeLeftFailsAfterAMoment) {
    Program program;
    program.answer = 1;
    const Interruption interruption(program.failure, 3);
    wait_until([&] { return interruption.asked(); });
    EXPECT_FALSE(program.failure.failed());
    wait_until([&] { return program.failure.failed(); });
    EXPECT_EQ(program.calls, 1) << "an exception is pending";
    EXPECT_EQ(program.failure.cause().status, MPIB_ERROR_PEER_LOST);
    EXPECT_NE(program.failure.cause().text.find("rank 3 left"), std::string::npos);
}

// Breaks when a call in a handler takes the place of the call that the handler interrupts.
TEST(Interruption, ACallInAHandlerHasAWaitOfItsOwn) {
    Program program;
    const Interruption outer(program.failure, 0);
    const auto due = Interruption::next_look();
    {
        const Interruption inner(program.failure, 0);
        EXPECT_GT(Interruption::next_look(), due);
        program.answer = 1;
        wait_until([&] { return inner.asked(); });
    }
    EXPECT_EQ(Interruption::next_look(), due);
    EXPECT_FALSE(outer.asked());
}

}  // namespace
}  // namespace mpi_bridge
