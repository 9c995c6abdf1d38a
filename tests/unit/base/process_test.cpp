// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/process.hpp"

#include <csignal>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace batchai::base {

TEST(Run, GivesOutputErrorAndExitCode) {
    const auto done = run({"sh", "-c", "cat; echo oops >&2; exit 7"},
                          {.environment = {}, .standard_input = "hi"});
    ASSERT_TRUE(done);
    EXPECT_EQ(done->exit_code, 7);
    EXPECT_EQ(done->standard_output, "hi");
    EXPECT_EQ(done->standard_error, "oops\n");
}

// Breaks when the kernel forgets how a program ended, because the caller was started with SIGCHLD
// ignored.
TEST(Run, LearnsTheExitCodeWhereTheEndsOfChildrenAreIgnored) {
    auto* const before = signal(SIGCHLD, SIG_IGN);
    const auto done = run({"sh", "-c", "exit 7"});
    signal(SIGCHLD, before);
    ASSERT_TRUE(done);
    EXPECT_EQ(done->exit_code, 7);
}

TEST(Run, NamesAProgramThatIsNotThere) {
    const auto done = run({"no-such-program-anywhere"});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().where, "no-such-program-anywhere");
    EXPECT_FALSE(done.error().hint.empty());
}

TEST(Run, KillsAtTheDeadline) {
    RunOptions options;
    options.deadline = std::chrono::milliseconds(50);
    const auto done = run({"sleep", "30"}, options);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().exit_code, ExitCode::timed_out);
}

TEST(Run, KillsAtTheDeadlineAProgramThatClosedItsOutputs) {
    RunOptions options;
    options.deadline = std::chrono::milliseconds(200);
    const auto begin = std::chrono::steady_clock::now();
    const auto done = run({"sh", "-c", "exec sleep 30 >&- 2>&-"}, options);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().exit_code, ExitCode::timed_out);
}

TEST(Run, EndsWhatATickGivesUp) {
    int ticks = 0;
    RunOptions options;
    options.tick_period = std::chrono::milliseconds(20);
    options.tick = [&]() -> Result<void> {
        if (++ticks == 3) return fail("enough");
        return {};
    };
    const auto done = run({"sleep", "30"}, options);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().what, "enough");
    EXPECT_EQ(ticks, 3);
}

TEST(Run, KeepsTheEndOfALongOutputOrFails) {
    RunOptions options;
    options.output_limit = 5;
    EXPECT_FALSE(run({"seq", "1000"}, options));
    options.keeps_end = true;
    EXPECT_EQ(run({"seq", "1000"}, options)->standard_output, "1000\n");
}

TEST(Run, SaysASignalAsAShellDoes) {
    EXPECT_EQ(run({"sh", "-c", "kill -9 $$"})->exit_code, 137);
}

TEST(Run, GivesAnInputOfAnyLength) {
    const std::string text(200000, 'x');
    const auto done = run({"cat"}, {.environment = {}, .standard_input = text});
    ASSERT_TRUE(done);
    EXPECT_EQ(done->standard_output, text);
    const auto none = run({"cat"});
    ASSERT_TRUE(none);
    EXPECT_EQ(none->standard_output, "");
}

namespace {

constexpr int no_limit = 77;

// Takes all the memory for pipes that one user may have, so that a new pipe holds little, and then
// runs a program with an input. Returns 0 if it gets the whole input, and does not return if run()
// waits for a reader.
int run_where_pipes_hold_little() {
    // Root's pipes have no limit.
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) return no_limit;
    std::vector<Pipe> pipes;
    while (true) {
        auto made = make_pipe();
        if (!made || pipes.size() > 5000) return no_limit;
        if (fcntl(made->read_end.get(), F_GETPIPE_SZ) < 65536) break;
        // The fewer pipes it takes, the better: a process may have few descriptors. The kernel
        // refuses the size that would pass the limit.
        static_cast<void>(fcntl(made->read_end.get(), F_SETPIPE_SZ, 1 << 20));
        pipes.push_back(std::move(*made));
    }
    const std::string text(60000, 'x');
    const auto done = run({"cat"}, {.environment = {}, .standard_input = text});
    return done && done->standard_output == text ? 0 : 1;
}

}  // namespace

TEST(Run, DoesNotWaitForAReaderWhereAPipeHoldsLittle) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        alarm(30);
        _exit(run_where_pipes_hold_little());
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == no_limit)
        GTEST_SKIP() << "this user's pipes have no limit here";
    EXPECT_EQ(status, 0);
}

}  // namespace batchai::base
