// SPDX-License-Identifier: GPL-2.0-or-later
// Stacks of C of children of the test. stacks.bats has a program of MPI.
#include "node/stacks/native/native_stacks.hpp"

#include <array>
#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "node/stacks/kernel_threads.hpp"

// Seen from elsewhere, so that they keep their names.
[[gnu::noinline]] void wait_in_a_test() {
    for (;;)
        pause();
}

namespace {

using batchai::node::native_stacks;
using batchai::node::threads_of;
using batchai::visit::StackFrame;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::chrono::milliseconds longest{10000};

class OtherProcess {
  public:
    explicit OtherProcess(const std::function<void()>& work) {
        std::array<int, 2> ready{};
        if (pipe(ready.data()) != 0) abort();
        child_ = fork();
        if (child_ == 0) {
            (void)!write(ready[1], "r", 1);
            work();
            _exit(0);
        }
        char byte = 0;
        (void)!read(ready[0], &byte, 1);
        close(ready[0]);
        close(ready[1]);
    }
    ~OtherProcess() {
        kill(child_, SIGKILL);
        waitpid(child_, nullptr, 0);
    }
    OtherProcess(const OtherProcess&) = delete;
    OtherProcess& operator=(const OtherProcess&) = delete;

    [[nodiscard]] pid_t id() const { return child_; }
    [[nodiscard]] std::string status() const {
        return batchai::base::read_file(fmt::format("/proc/{}/status", child_)).value_or("");
    }

  private:
    pid_t child_;
};

auto has_function(const std::string& name) {
    return Contains(Field("function", &StackFrame::function, name));
}

// Breaks when the process stays stopped, or traced, or does not get its signals any more.
TEST(NativeStacks, AreThoseOfTheProgramWhichGoesOn) {
    const OtherProcess child([] {
        signal(SIGUSR1, [](int /*number*/) { _exit(7); });
        wait_in_a_test();
    });
    for (int i = 0; i < 3; ++i) {
        auto answers = native_stacks({{child.id(), {child.id()}}}, longest);
        ASSERT_EQ(answers.count(child.id()), 1U);
        EXPECT_EQ(answers[child.id()].why, "");
        EXPECT_THAT(answers[child.id()].stacks[child.id()], has_function("wait_in_a_test"));
    }
    EXPECT_THAT(child.status(), HasSubstr("TracerPid:\t0\n"));
    kill(child.id(), SIGUSR1);
    siginfo_t end{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.id()), &end, WEXITED | WNOWAIT), 0);
    EXPECT_EQ(end.si_status, 7);
}

TEST(NativeStacks, AreThoseOfEachThread) {
    const OtherProcess child([] {
        std::thread([] { wait_in_a_test(); }).detach();
        for (volatile bool spin = true; spin;) {
        }
    });
    std::vector<pid_t> threads;
    while (threads.size() < 2)
        threads = threads_of(child.id());
    const auto waits = [&] {
        auto answers = native_stacks({{child.id(), threads}}, longest);
        EXPECT_EQ(answers[child.id()].stacks.size(), 2U) << answers[child.id()].why;
        const auto& frames = answers[child.id()].stacks[threads[1]];
        return std::any_of(frames.begin(), frames.end(), [](const StackFrame& frame) {
            return frame.function == "wait_in_a_test";
        });
    };
    while (!waits() && !HasFailure()) {
    }
}

TEST(NativeStacks, AreMissingWithAReason) {
    pid_t gone = 0;
    {
        gone = OtherProcess([] {}).id();
    }
    auto answers = native_stacks({{gone, {gone}}}, longest);
    EXPECT_NE(answers[gone].why, "");
    EXPECT_THAT(answers[gone].stacks, IsEmpty());
    EXPECT_THAT(native_stacks({}, longest), IsEmpty());
    const OtherProcess child(wait_in_a_test);
    EXPECT_THAT(native_stacks({{child.id(), {child.id()}}}, std::chrono::milliseconds(0)),
                IsEmpty());
    EXPECT_THAT(child.status(), testing::Not(HasSubstr("State:\tT")));
}

}  // namespace
