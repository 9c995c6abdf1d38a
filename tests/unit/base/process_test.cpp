// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/process.hpp"

#include <gtest/gtest.h>

namespace batchai::base {

TEST(Run, GivesOutputErrorAndExitCode) {
    const auto done = run({"sh", "-c", "cat; echo oops >&2; exit 7"},
                          {.environment = {}, .standard_input = "hi"});
    ASSERT_TRUE(done);
    EXPECT_EQ(done->exit_code, 7);
    EXPECT_EQ(done->standard_output, "hi");
    EXPECT_EQ(done->standard_error, "oops\n");
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

}  // namespace batchai::base
