// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.hpp"

namespace batchai::base {
namespace {

using std::chrono::seconds;

std::chrono::steady_clock::time_point after(seconds time) {
    return std::chrono::steady_clock::now() + time;
}

// What the program prints.
std::string printed_by(Program program) {
    Pipe pipe = make_pipe().value();
    program.descriptors.push_back({.ours = pipe.write_end.get(), .its = STDOUT_FILENO});
    Child child = Child::start(program).value();
    pipe.write_end.reset(-1);
    std::string text = read_to_end(pipe.read_end.get());
    EXPECT_EQ(child.wait(), 0);
    return text;
}

TEST(Child, GetsItsDescriptorsWhateverTheirNumbersAre) {
    // Each becomes the number of the other.
    Pipe one = make_pipe().value();
    Pipe two = make_pipe().value();
    ASSERT_EQ(write(one.write_end.get(), "1\n", 2), 2);
    ASSERT_EQ(write(two.write_end.get(), "2\n", 2), 2);
    const int first = one.read_end.get();
    const int second = two.read_end.get();
    ASSERT_LT(std::max(first, second), 10) << "a shell reads no others";
    const std::string script = "read a <&" + std::to_string(first) + "; read b <&" +
                               std::to_string(second) + "; echo $a $b; cat";
    EXPECT_EQ(printed_by({.arguments = {"sh", "-c", script},
                          .descriptors = {{.ours = first, .its = second},
                                          {.ours = second, .its = first},
                                          {.ours = -1, .its = STDIN_FILENO}}}),
              "2 1\n");
}

TEST(Child, GetsNoOtherDescriptorsIfItIsToldSo) {
    const int kept = dup(STDERR_FILENO);
    const std::string script =
        "[ -e /proc/self/fd/" + std::to_string(kept) + " ] && echo there; true";
    EXPECT_EQ(printed_by({.arguments = {"sh", "-c", script}}), "there\n");
    EXPECT_EQ(printed_by({.arguments = {"sh", "-c", script}, .closes_all_others = true}), "");
    close(kept);
}

TEST(Child, GetsTheSignalsThatItIsToldTo) {
    const HeldSignals held{SIGTERM};
    struct sigaction before {};
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGHUP, &ignore, &before);
    const auto has = [](Signals signals, const char* field, int number) {
        const std::string line =
            printed_by({.arguments = {"grep", field, "/proc/self/status"}, .signals = signals});
        const auto mask = std::stoull(line.substr(line.find(':') + 1), nullptr, 16);
        return (mask >> static_cast<unsigned>(number - 1) & 1U) != 0;
    };
    EXPECT_TRUE(has(Signals::inherited, "SigBlk", SIGTERM));
    EXPECT_FALSE(has(Signals::unblocked, "SigBlk", SIGTERM));
    EXPECT_TRUE(has(Signals::unblocked, "SigIgn", SIGHUP));
    EXPECT_FALSE(has(Signals::unblocked_all_default, "SigIgn", SIGHUP));
    sigaction(SIGHUP, &before, nullptr);
}

TEST(Child, SaysWhyAProgramCannotBeStarted) {
    const auto missing = Child::start({.arguments = {"no-such-program"}, .missing_hint = "buy it"});
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().where, "no-such-program");
    EXPECT_EQ(missing.error().hint, "buy it");
    const auto directory = Child::start({.arguments = {"/"}});
    ASSERT_FALSE(directory);
    EXPECT_EQ(directory.error().hint, "");
}

TEST(Child, IsKilledWithItsGroupWhenTheObjectGoes) {
    Pipe alive = make_pipe().value();
    {
        const auto child = Child::start({.arguments = {"sh", "-c", "sleep 60 & echo; sleep 60"},
                                         .descriptors = {{alive.write_end.get(), STDOUT_FILENO}},
                                         .own_group = true});
        ASSERT_TRUE(child);
        alive.write_end.reset(-1);
        char byte = 0;
        ASSERT_EQ(read(alive.read_end.get(), &byte, 1), 1);
    }
    // Both have closed it.
    EXPECT_EQ(read_to_end(alive.read_end.get()), "");
}

TEST(Child, TellsItsEndOnce) {
    Child child = Child::fork([] { return 3; }).value();
    const auto status = child.ended_by(after(seconds(10)));
    ASSERT_TRUE(status);
    EXPECT_EQ(shell_exit_code(*status), 3);
    EXPECT_EQ(child.process(), -1);
    EXPECT_FALSE(child.ended());
    Child slow = Child::fork([] { return pause(); }).value();
    EXPECT_FALSE(slow.ended_by(after(seconds(0))));
    slow.signal(SIGTERM);
    EXPECT_EQ(shell_exit_code(slow.wait()), 128 + SIGTERM);
}

TEST(Child, ThatThrowsFails) {
    Child child =
        Child::fork([]() -> int { throw std::runtime_error("thrown on purpose"); }).value();
    EXPECT_EQ(shell_exit_code(child.wait()), 255);
}

TEST(ForkDetached, OutlivesWhoStartedItAndIsNobodysChild) {
    Pipe pipe = make_pipe().value();
    const pid_t self = getpid();
    ASSERT_TRUE(fork_detached([&] {
        while (getppid() == self)
            usleep(1000);
        const char other_session = getsid(0) != getsid(self) ? 'y' : 'n';
        return write(pipe.write_end.get(), &other_session, 1) == 1 ? 0 : 1;
    }));
    pipe.write_end.reset(-1);
    EXPECT_EQ(read_to_end(pipe.read_end.get()), "y");
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
}

TEST(Become, ReturnsWhenItFails) {
    const Error error = become({.arguments = {"no-such-program"}, .missing_hint = "buy it"});
    EXPECT_EQ(error.hint, "buy it");
}

TEST(HeldSignals, AreAskedForOneByOne) {
    const HeldSignals signals{SIGUSR1, SIGUSR2};
    EXPECT_FALSE(signals.next());
    raise(SIGUSR2);
    EXPECT_EQ(signals.next_within(seconds(10)), SIGUSR2);
    EXPECT_FALSE(signals.next_within(std::chrono::milliseconds(1)));
}

// Breaks when what runs under nohup ends with its terminal, or what a script has put into the
// background with an interrupt of the script.
TEST(HeldSignals, LeaveOutThoseOfTheTerminalThatAreIgnored) {
    for (const int number : {SIGHUP, SIGINT, SIGQUIT}) {
        struct sigaction before {};
        struct sigaction ignore {};
        ignore.sa_handler = SIG_IGN;
        sigaction(number, &ignore, &before);
        {
            const HeldSignals signals{number, SIGUSR1};
            raise(number);
            raise(SIGUSR1);
            EXPECT_EQ(signals.next_within(seconds(10)), SIGUSR1);
            EXPECT_FALSE(signals.next());
        }
        sigaction(number, &before, nullptr);
    }
}

TEST(HeldSignals, ThatNobodyAskedForHaveTheirEffectAtTheEnd) {
    Child child = Child::fork([] {
                      {
                          const HeldSignals signals{SIGTERM};
                          raise(SIGTERM);
                      }
                      return 0;
                  }).value();
    EXPECT_EQ(shell_exit_code(child.wait()), 128 + SIGTERM);
}

}  // namespace
}  // namespace batchai::base
