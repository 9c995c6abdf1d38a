// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/srun/step.hpp"

#include <csignal>

#include <gtest/gtest.h>
#include <unistd.h>

namespace batchai::run {

TEST(RunStep, GivesTheExitCodeAndWhatWasSaid) {
    const SignalWatch signals;
    int ticks = 0;
    const auto result = run_step({"sh", "-c", "echo oops >&2; sleep 0.6; exit 5"},
                                 base::environment_without({}), signals, {}, [&] { ++ticks; });
    ASSERT_TRUE(result);
    EXPECT_EQ(result->exit_code, 5);
    EXPECT_EQ(result->messages, "oops\n");
    EXPECT_FALSE(result->stopped_by);
    EXPECT_GE(ticks, 2);
}

TEST(RunStep, LeavesOutWhatSrunSaysWithoutNeed) {
    const SignalWatch signals;
    const auto result = run_step({"sh", "-c",
                                  "echo first >&2; echo 'srun: cluster configuration lacks support "
                                  "for cpu binding' >&2; echo last >&2"},
                                 base::environment_without({}), signals, {}, [] {});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->messages, "first\nlast\n");
}

TEST(RunStep, ForwardsTermAndSaysSo) {
    const SignalWatch signals;
    const auto result =
        run_step({"sh", "-c", "trap 'exit 9' TERM; kill -TERM $PPID; while :; do sleep 0.05; done"},
                 base::environment_without({}), signals, {}, [] {});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->exit_code, 9);
    EXPECT_EQ(result->stopped_by, SIGTERM);
}

TEST(RunStep, StopsAtTheDeadline) {
    const SignalWatch signals;
    const auto result = run_step({"sleep", "60"}, base::environment_without({}), signals,
                                 std::chrono::seconds(1), [] {});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().exit_code, base::ExitCode::timed_out);
}

TEST(RunStep, StartsTheProgramWithNoSignalBlocked) {
    const SignalWatch signals;
    const auto result = run_step({"sh", "-c", "grep SigBlk /proc/self/status >&2"},
                                 base::environment_without({}), signals, {}, [] {});
    ASSERT_TRUE(result);
    EXPECT_NE(result->messages.find("0000000000000000"), std::string::npos);
}

}  // namespace batchai::run
