// SPDX-License-Identifier: GPL-2.0-or-later
// Stacks of C of children of the test. stacks.bats has a program of MPI.
#include "node/stacks/native/native_stacks.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "node/stacks/kernel_threads.hpp"
#include "node/stacks/native/function_names.hpp"
#include "node/stacks/native/permission.hpp"
#include "node/stacks/native/stack_walker.hpp"

// Seen from elsewhere, so that they keep their names.
[[gnu::noinline]] void wait_in_a_test(const std::function<void()>& is_ready) {
    is_ready();
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
            ready_ = ready[1];
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

    // The child has come to what it is to do.
    static void is_ready() { (void)!write(ready_, "r", 1); }

  private:
    static inline int ready_ = -1;
    pid_t child_;
};

auto has_function(const std::string& name) {
    return Contains(Field("function", &StackFrame::function, name));
}

// Breaks when the process stays stopped, or traced, or does not get its signals any more.
TEST(NativeStacks, AreThoseOfTheProgramWhichGoesOn) {
    const OtherProcess child([] {
        signal(SIGUSR1, [](int /*number*/) { _exit(7); });
        wait_in_a_test(OtherProcess::is_ready);
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
        std::thread([] { wait_in_a_test(OtherProcess::is_ready); }).detach();
        for (volatile bool spin = true; spin;) {
        }
    });
    auto threads = threads_of(child.id());
    ASSERT_EQ(threads.size(), 2U);
    // The main thread is the first one of a question, whatever the number of the other one is.
    if (threads[0] != child.id()) std::swap(threads[0], threads[1]);
    auto answers = native_stacks({{child.id(), threads}}, longest);
    EXPECT_EQ(answers[child.id()].stacks.size(), 2U) << answers[child.id()].why;
    EXPECT_THAT(answers[child.id()].stacks[threads[1]], has_function("wait_in_a_test"));
}

TEST(NativeStacks, AreMissingWithAReason) {
    pid_t gone = 0;
    {
        gone = OtherProcess([] { OtherProcess::is_ready(); }).id();
    }
    auto answers = native_stacks({{gone, {gone}}}, longest);
    EXPECT_EQ(answers[gone].why, "it has ended");
    EXPECT_THAT(answers[gone].stacks, IsEmpty());
    EXPECT_THAT(native_stacks({}, longest), IsEmpty());
    const OtherProcess child([] { wait_in_a_test(OtherProcess::is_ready); });
    answers = native_stacks({{child.id(), {child.id()}}}, std::chrono::milliseconds(0));
    EXPECT_EQ(answers[child.id()].why, "there was not enough time");
}

// Breaks when a process that somebody has stopped goes on, or one that is stopped is waited for.
TEST(NativeStacks, LeaveAStoppedProcessAlone) {
    const OtherProcess child([] { wait_in_a_test(OtherProcess::is_ready); });
    kill(child.id(), SIGSTOP);
    siginfo_t stopped{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.id()), &stopped, WSTOPPED), 0);
    auto answers = native_stacks({{child.id(), {child.id()}}}, longest);
    EXPECT_EQ(answers[child.id()].why, "it cannot be stopped now");
    EXPECT_THAT(child.status(), HasSubstr("State:\tT (stopped)"));
    EXPECT_THAT(child.status(), HasSubstr("TracerPid:\t0\n"));
}

// Whether an address is in code of the process.
bool is_code(pid_t process, std::uint64_t address) {
    const auto maps = batchai::base::read_file(fmt::format("/proc/{}/maps", process)).value_or("");
    for (const std::string_view line : batchai::base::split(maps, '\n')) {
        const auto words = batchai::base::split(line, ' ');
        if (words.size() < 2 || words[1] != "r-xp") continue;
        const auto ends = batchai::base::split(words[0], '-');
        const auto begin = batchai::base::number_in<std::uint64_t>(ends.at(0), 16);
        const auto end = batchai::base::number_in<std::uint64_t>(ends.at(1), 16);
        if (begin && end && *begin <= address && address < *end) return true;
    }
    return false;
}

// Breaks when a return address is taken with the signature that aarch64 puts into it. Here the test
// does that.
TEST(NativeStacks, AreWalkedWithoutSignatures) {
    const OtherProcess child([] { wait_in_a_test(OtherProcess::is_ready); });
    const batchai::base::FileDescriptor memory(
        open(fmt::format("/proc/{}/mem", child.id()).c_str(), O_RDONLY | O_CLOEXEC));
    auto copy = batchai::node::copy_thread(child.id(), memory.get());
    ASSERT_TRUE(copy);
    copy->signature_bits = 0x007F'0000'0000'0000;
    const std::uint64_t signature = 0x002A'0000'0000'0000;
    int signed_words = 0;
    const std::size_t before_word = (8 - copy->stack_begin % 8) % 8;
    for (std::size_t at = before_word; at + 8 <= std::min<std::size_t>(copy->stack.size(), 4096);
         at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, copy->stack.data() + at, sizeof word);
        if (!is_code(child.id(), word)) continue;
        word |= signature;
        std::memcpy(copy->stack.data() + at, &word, sizeof word);
        ++signed_words;
    }
    EXPECT_GT(signed_words, 2);
    const auto functions = batchai::node::libdw::load();
    ASSERT_TRUE(functions);
    auto walker = batchai::node::StackWalker::open(*functions, child.id());
    ASSERT_TRUE(walker);
    const auto frames = walker->frames_of(child.id(), *copy);
    ASSERT_TRUE(frames);
    EXPECT_THAT(*frames, has_function("wait_in_a_test"));
    EXPECT_THAT(*frames, has_function("main"));
}

// Breaks when who is in the way is not told.
TEST(NativeStacks, AreMissingWhereADebuggerIs) {
    const OtherProcess child([] {
        if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
        wait_in_a_test(OtherProcess::is_ready);
    });
    auto answers = native_stacks({{child.id(), {child.id()}}}, longest);
    EXPECT_EQ(answers[child.id()].why,
              fmt::format("process {}, such as a debugger, traces it", getpid()));
}

TEST(NativeStacks, AreMissingWhereYamaForbidsThem) {
    using batchai::node::reason_of_refusal;
    EXPECT_EQ(reason_of_refusal("3", 0),
              "nobody may trace processes there (kernel.yama.ptrace_scope is 3)");
    EXPECT_THAT(reason_of_refusal("1", 0), HasSubstr("ptrace_scope is 1 there, and it is not in"));
    EXPECT_THAT(reason_of_refusal("0", 0), HasSubstr("a security module of the node"));
    EXPECT_THAT(reason_of_refusal("", 0), HasSubstr("PR_SET_DUMPABLE"));
}

// Breaks when a signal that comes while the thread is stopped is lost.
TEST(NativeStacks, LoseNoSignals) {
    static std::atomic<int>* const count = static_cast<std::atomic<int>*>(
        mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
             -1, 0));
    *count = 0;  // the test may be repeated
    const OtherProcess child([] {
        signal(SIGRTMIN, [](int /*number*/) { ++*count; });
        wait_in_a_test(OtherProcess::is_ready);
    });
    std::atomic<bool> ends = false;
    int sent = 0;
    std::thread sender([&] {
        while (!ends) {
            if (kill(child.id(), SIGRTMIN) == 0) ++sent;
            std::this_thread::sleep_for(std::chrono::microseconds(300));
        }
    });
    for (int i = 0; i < 30; ++i)
        static_cast<void>(native_stacks({{child.id(), {child.id()}}}, longest));
    ends = true;
    sender.join();
    while (*count < sent && child.status().find("State:\tZ") == std::string::npos)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(*count, sent);
}

TEST(FunctionNames, AreThoseOfPeople) {
    using batchai::node::readable_function;
    using batchai::node::without_arguments;
    EXPECT_EQ(readable_function("f"), "f");
    EXPECT_EQ(readable_function("PMPI_Allreduce"), "MPI_Allreduce");
    EXPECT_EQ(readable_function("_ZN2ns4loadEi"), "ns::load");
    EXPECT_EQ(readable_function("_Znonsense"), "_Znonsense");
    EXPECT_EQ(without_arguments("Solver<double>::step(int)"), "Solver::step");
    EXPECT_EQ(without_arguments("ns::(anonymous namespace)::load()"), "ns::load");
    EXPECT_EQ(without_arguments("(anonymous namespace)::f(int)"), "f");
    EXPECT_EQ(without_arguments("std::vector<int> make<std::pair<int, int>>()"), "make");
    EXPECT_EQ(without_arguments("F::operator()(int) const"), "F::operator()");
    EXPECT_EQ(without_arguments("ns::operator<<(std::ostream&, int)"), "ns::operator<<");
    EXPECT_EQ(without_arguments("S::operator<(S const&) const"), "S::operator<");
    EXPECT_EQ(without_arguments("plain"), "plain");
}

}  // namespace
