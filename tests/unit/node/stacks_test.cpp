// SPDX-License-Identifier: GPL-2.0-or-later
//
// A child of the test stands for a Python that batchai_stacks.py has armed: it has a file in memory
// with the same head, and writes into it when it gets the signal.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "node/stacks/armed_python.hpp"
#include "node/stacks/bridge_state.hpp"
#include "node/stacks/job_processes.hpp"
#include "node/stacks/kernel_threads.hpp"
#include "node/stacks/memory_files.hpp"

namespace {

using batchai::node::ask_for_python_stacks;
using batchai::node::kernel_call_in;
using batchai::node::kernel_threads;
using batchai::node::KernelCall;
using std::chrono::milliseconds;

constexpr milliseconds longest{60000};
constexpr const char* words = "Stack (most recent call first):\n";

int dump_file = -1;
const char* dump_words = words;
void dump(int /*number*/) {
    (void)!write(dump_file, dump_words, strlen(dump_words));
    while (std::string_view(dump_words) == "never ends")
        pause();
    if (std::string_view(dump_words) != "slow") return;
    const timespec pause{0, 300'000'000};
    nanosleep(&pause, nullptr);
    constexpr std::string_view rest = ", and its end";
    (void)!write(dump_file, rest.data(), rest.size());
}

// What of the head does not hold.
enum class Wrong { nothing, process, descriptor, no_handler, no_file };

class Armed {
  public:
    explicit Armed(Wrong wrong, const char* says = words) {
        std::array<int, 2> ready{};
        if (pipe(ready.data()) != 0) abort();
        child_ = fork();
        if (child_ == 0) {
            dump_words = says;
            arm(wrong);
            (void)!write(ready[1], "r", 1);
            for (;;)
                pause();
        }
        char byte = 0;
        (void)!read(ready[0], &byte, 1);
        close(ready[0]);
        close(ready[1]);
    }
    ~Armed() {
        kill(child_, SIGKILL);
        waitpid(child_, nullptr, 0);
    }
    Armed(const Armed&) = delete;
    Armed& operator=(const Armed&) = delete;

    [[nodiscard]] pid_t process() const { return child_; }
    // Whether the process is there: a signal that nothing handles would have ended it.
    [[nodiscard]] bool lives() const { return waitpid(child_, nullptr, WNOHANG) == 0; }

  private:
    static void arm(Wrong wrong) {
        const int number = SIGRTMAX - 1;
        if (wrong != Wrong::no_handler) {
            struct sigaction action {};
            action.sa_handler = dump;
            sigaction(number, &action, nullptr);
        }
        if (wrong == Wrong::no_file) return;
        dump_file = memfd_create("batchai-stacks", MFD_CLOEXEC);
        fcntl(dump_file, F_SETFL, O_APPEND);
        const std::string head = fmt::format(
            "batchai-stacks 1 {} {} {}\n", wrong == Wrong::process ? getppid() : getpid(),
            dump_file + (wrong == Wrong::descriptor ? 1 : 0), number);
        (void)!write(dump_file, head.data(), head.size());
    }

    pid_t child_ = -1;
};

using Dumps = std::map<pid_t, std::string>;

batchai::node::PythonQuestion question_to(const Armed& armed) {
    return {.process = armed.process(), .threads = {armed.process()}};
}

TEST(ArmedPython, SaysWhereItIsEachTime) {
    const Armed one(Wrong::nothing);
    const Armed two(Wrong::nothing);
    for (int i = 0; i < 3; ++i) {
        const auto answers = ask_for_python_stacks({question_to(one), question_to(two)}, longest);
        EXPECT_EQ(answers.at(one.process()).dumps, (Dumps{{one.process(), words}}));
        EXPECT_EQ(answers.at(two.process()).dumps, (Dumps{{two.process(), words}}));
    }
}

// Breaks when a signal is sent that could end a process, or whose answer goes to another file.
TEST(ArmedPython, IsNotAskedIfWhatItHasSaidNoLongerHolds) {
    for (const Wrong wrong :
         {Wrong::process, Wrong::descriptor, Wrong::no_handler, Wrong::no_file}) {
        const Armed process(wrong);
        const auto answers = ask_for_python_stacks({question_to(process)}, longest);
        EXPECT_EQ(answers.at(process.process()).dumps, Dumps()) << static_cast<int>(wrong);
        EXPECT_EQ(answers.at(process.process()).why,
                  wrong == Wrong::no_handler ? "it no longer handles the signal" : "");
        // A signal that was sent would be pending, or would have ended it.
        std::this_thread::sleep_for(milliseconds(20));
        EXPECT_TRUE(process.lives()) << static_cast<int>(wrong);
    }
}

// Breaks when the end of an answer is guessed, or a process that answers late holds up the others.
TEST(ArmedPython, IsWaitedForUntilItsHandlerHasEnded) {
    const Armed slow(Wrong::nothing, "slow");
    const Armed other(Wrong::nothing);
    const auto answers = ask_for_python_stacks({question_to(slow), question_to(other)}, longest);
    EXPECT_EQ(answers.at(slow.process()).dumps, (Dumps{{slow.process(), "slow, and its end"}}));
    EXPECT_EQ(answers.at(other.process()).dumps, (Dumps{{other.process(), words}}));
}

// Breaks when a second signal is sent while the first is not handled yet.
TEST(ArmedPython, IsNotAskedAgainBeforeItHasAnswered) {
    const Armed never(Wrong::nothing, "never ends");
    const auto late = ask_for_python_stacks({question_to(never)}, milliseconds(20));
    EXPECT_EQ(late.at(never.process()).why, "it does not answer the signal");
    const auto again = ask_for_python_stacks({question_to(never)}, longest);
    EXPECT_THAT(again.at(never.process()).why,
                testing::AnyOf("it blocks the signal", "it has not answered an earlier signal"));
}

TEST(ArmedPython, SaysThatItIsBeingAsked) {
    const Armed one(Wrong::nothing);
    const auto files = batchai::node::memory_files(one.process(), "batchai-stacks", O_RDWR);
    ASSERT_EQ(files.size(), 1U);
    ASSERT_EQ(flock(files[0].file.get(), LOCK_EX), 0);
    const Armed other(Wrong::nothing);
    const auto answers =
        ask_for_python_stacks({question_to(one), question_to(other)}, milliseconds(3000));
    EXPECT_EQ(answers.at(one.process()).why, "another command is asking it for its stacks");
    EXPECT_EQ(answers.at(other.process()).dumps.size(), 1U);
}

TEST(ArmedPython, MayHaveEnded) {
    const auto answers = ask_for_python_stacks({{0x3ffffffe, {0x3ffffffe}}}, longest);
    EXPECT_EQ(answers.at(0x3ffffffe).dumps, Dumps());
}

// Breaks when a wait of microseconds is taken for one that lasts, or the library is not found.
TEST(BridgeState, HasWhatTwoLooksHaveInCommon) {
    const batchai::node::BridgeLook first{
        .rank = 1, .waits = {{0, 7, 3, 0, -1}, {1, 8, 4, 0, -1}}, .operations = {}};
    const batchai::node::BridgeLook second{.rank = 1,
                                           .waits = {{0, 7, 3, 0, -1}, {1, 9, 4, 0, -1}},
                                           .operations = {{0, "allreduce", "\"a\"", 3}}};
    const auto state = batchai::node::lasting(first, second);
    EXPECT_EQ(state.rank, 1);
    EXPECT_THAT(state.waits_for, testing::ElementsAre(3));
    EXPECT_EQ(state.operations.size(), 1U);
}

TEST(BridgeState, IsReadFromTheProcess) {
    EXPECT_FALSE(batchai::node::look_at_bridge(getpid()));
    const int file = memfd_create("mpi_bridge-state", MFD_CLOEXEC);
    const auto layout = std::make_unique<mpi_bridge::VisibleLayout>();
    layout->process = getpid();
    layout->rank = 2;
    layout->waits.places[5].who = 9 << mpi_bridge::WaitsTable::lane_bits;
    const std::string text =
        fmt::format("0 allreduce {} \"a b\"\nwrong\n",
                    std::chrono::steady_clock::now().time_since_epoch().count() - 5'500'000'000);
    std::copy(text.begin(), text.end(), layout->operations.text.begin());
    layout->operations.bytes = static_cast<std::uint32_t>(text.size());
    const auto show = [&] {
        ASSERT_EQ(pwrite(file, static_cast<void*>(layout.get()), sizeof *layout, 0),
                  static_cast<ssize_t>(sizeof *layout));
    };
    show();
    const auto look = batchai::node::look_at_bridge(getpid());
    ASSERT_TRUE(look);
    EXPECT_EQ(look->rank, 2);
    ASSERT_EQ(look->waits.size(), 1U);
    EXPECT_EQ(look->waits[0].rank, 9);
    ASSERT_EQ(look->operations.size(), 1U);
    EXPECT_EQ(look->operations[0], (batchai::visit::OpenOperation{0, "allreduce", "\"a b\"", 5}));
    layout->process = getpid() + 1;
    show();
    EXPECT_FALSE(batchai::node::look_at_bridge(getpid()));
    layout->process = getpid();
    layout->format[0] = 'x';
    show();
    EXPECT_FALSE(batchai::node::look_at_bridge(getpid()));
    close(file);
}

batchai::node::SeenProcess seen_process(int number, int parent, std::optional<int> rank,
                                        bool launched = false) {
    batchai::node::SeenProcess seen;
    seen.process.process = number;
    seen.process.parent = parent;
    seen.process.rank = rank;
    seen.process.threads = 1;
    seen.process.program = "/bin/sh -c x";
    seen.launched = launched;
    return seen;
}

std::vector<pid_t> tasks_in(const batchai::node::SeenProcesses& processes) {
    std::vector<pid_t> tasks;
    for (const auto& [number, seen] : processes) {
        if (seen.process.is_task) tasks.push_back(number);
    }
    return tasks;
}

// Breaks when a launcher, a worker of a rank or an orphan is taken for a rank, or a rank is not.
TEST(JobProcesses, TellRanksFromWhatTheyHaveStarted) {
    // Rank 0 with a worker, rank 1, and a server of rank 1 that has lost its parent.
    batchai::node::SeenProcesses plain{{10, seen_process(10, 5, 0)},
                                       {11, seen_process(11, 10, 0)},
                                       {12, seen_process(12, 5, 1)},
                                       {13, seen_process(13, 1, 1)}};
    batchai::node::mark_tasks(plain);
    EXPECT_THAT(tasks_in(plain), testing::ElementsAre(10, 12));
    // torchrun in the task of rank 0, its two ranks, a worker of the second, and an orphan.
    batchai::node::SeenProcesses torchrun{{20, seen_process(20, 5, 0)},
                                          {21, seen_process(21, 20, 0, true)},
                                          {22, seen_process(22, 20, 1, true)},
                                          {23, seen_process(23, 22, 1, true)},
                                          {24, seen_process(24, 1, 1, true)}};
    batchai::node::mark_tasks(torchrun);
    EXPECT_THAT(tasks_in(torchrun), testing::ElementsAre(21, 22));
    EXPECT_EQ(torchrun.at(20).process.rank, std::nullopt);
    // One mpirun has another one's environment.
    batchai::node::SeenProcesses nested{{30, seen_process(30, 5, 3, true)},
                                        {31, seen_process(31, 30, 0, true)}};
    batchai::node::mark_tasks(nested);
    EXPECT_THAT(tasks_in(nested), testing::ElementsAre(30, 31));
}

// A program of this user in a step, until this object goes.
class ProgramOfStep {
  public:
    ProgramOfStep(const std::string& job, const std::string& step) {
        const std::array<std::string, 3> variables{"SLURM_JOB_ID=" + job, "SLURM_STEP_ID=" + step,
                                                   "SLURM_PROCID=0"};
        std::array<const char*, 4> environment{};
        std::transform(variables.begin(), variables.end(), environment.begin(),
                       [](const std::string& variable) { return variable.c_str(); });
        const std::array<const char*, 3> command{"sleep", "600", nullptr};
        EXPECT_EQ(
            posix_spawn(&process_, "/bin/sleep", nullptr, nullptr,
                        const_cast<char**>(command.data()), const_cast<char**>(environment.data())),
            0);
        // The kernel lets the caller go on before the child's new environment can be read.
        const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
        const std::string path = fmt::format("/proc/{}/environ", process_);
        while (batchai::base::read_file(path).value_or("").empty() &&
               std::chrono::steady_clock::now() < end)
            std::this_thread::yield();
    }
    ProgramOfStep(const ProgramOfStep&) = delete;
    ProgramOfStep& operator=(const ProgramOfStep&) = delete;
    ~ProgramOfStep() {
        if (process_ <= 0) return;
        kill(process_, SIGKILL);
        waitpid(process_, nullptr, 0);
    }
    [[nodiscard]] pid_t process() const { return process_; }

  private:
    pid_t process_ = -1;
};

// Breaks when the batch script or a user's shell, whose steps have numbers too, are taken for
// ranks.
TEST(JobProcesses, AreThoseOfStepsForRanks) {
    // No job of this machine has this number.
    const std::string job = fmt::format("{}{}", 4000000, getpid());
    const ProgramOfStep batch_script(job, "-5");
    const ProgramOfStep shell(job, "-6");
    const ProgramOfStep former_shell(job, "4294967290");
    const ProgramOfStep rank(job, "0");
    const ProgramOfStep own(job, "1");
    std::vector<pid_t> found;
    for (const auto& [number, seen] : batchai::node::processes_of_job(job, "1"))
        found.push_back(number);
    EXPECT_THAT(found, testing::ElementsAre(rank.process()));
}

// Breaks when a shell stays, or a rank that stands still elsewhere goes.
TEST(JobProcesses, LeaveOutShellsThatWait) {
    batchai::node::SeenProcesses processes{
        {10, seen_process(10, 5, 0)}, {11, seen_process(11, 10, 0)}, {12, seen_process(12, 11, 0)},
        {20, seen_process(20, 5, 1)}, {21, seen_process(21, 20, 1)}, {30, seen_process(30, 5, 2)},
        {31, seen_process(31, 30, 2)}};
    for (const int number : {10, 11, 20, 30})
        processes.at(number).has_children = true;
    const auto waits_in = [&](int number, const char* where, const char* call) {
        processes.at(number).process.kernel = {
            {.id = number, .name = "x", .state = "S", .where = where, .call = call}};
    };
    waits_in(10, "do_wait", "");
    waits_in(11, "", "wait");
    waits_in(20, "pipe_read", "read(pipe:[1])");
    waits_in(30, "do_wait", "wait");
    processes.at(30).process.program = "/usr/bin/python3 train.py";
    batchai::node::leave_out_waiting_shells(processes);
    batchai::node::mark_tasks(processes);
    EXPECT_THAT(tasks_in(processes), testing::ElementsAre(12, 20, 30));
    EXPECT_EQ(processes.size(), 5U);
}

TEST(KernelThreads, TellsTheCallInWhichAThreadWaits) {
    std::array<int, 2> pipe_ends{};
    ASSERT_EQ(pipe(pipe_ends.data()), 0);
    const pid_t child = fork();
    if (child == 0) {
        char byte = 0;
        (void)!read(pipe_ends[0], &byte, 1);
        _exit(0);
    }
    // Some kernels do not tell.
    const bool is_told = std::filesystem::exists("/proc/self/syscall") &&
                         !batchai::base::read_file("/proc/self/syscall").value_or("").empty();
    std::vector<batchai::visit::KernelThread> threads;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    do {
        threads = kernel_threads(child);
        ASSERT_EQ(threads.size(), 1U);
    } while ((threads[0].state != "S" || (is_told && threads[0].call.empty())) &&
             std::chrono::steady_clock::now() < end);
    EXPECT_EQ(threads[0].id, child);
    if (is_told) {
        EXPECT_THAT(threads[0].call, testing::StartsWith("read(pipe:["));
    }
    close(pipe_ends[1]);
    close(pipe_ends[0]);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
}

TEST(KernelThreads, KnowsCallsThatMayWait) {
    EXPECT_EQ(kernel_call_in(fmt::format("{} 0x5 0x7ffd 0x1 0x0 0x0 0x0 0x7ffd 0x7f58", SYS_read)),
              (KernelCall{"read", 5}));
    for (const char* text :
         {"", "running", "-1 0x7f 0x1", "0 5", "0 0xffffffffffffffff 0x0", "999999 0x5 0x0"})
        EXPECT_EQ(kernel_call_in(text), std::nullopt) << text;
}

}  // namespace
