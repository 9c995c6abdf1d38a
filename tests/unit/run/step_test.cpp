// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/srun/step.hpp"

#include <algorithm>
#include <csignal>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/unit/run/scratch.hpp"

namespace batchai::run {

using StepOfScratch = ScratchTest;

TEST_F(StepOfScratch, GivesTheExitCodeAndWhatWasSaid) {
    SrunRunner runner;
    int ticks = 0;
    // The program goes on until there has been a second tick.
    const auto result = runner.run(
        {.arguments = {"sh", "-c",
                       fmt::format("echo oops >&2; while [ ! -e {} ]; do sleep 0.05; done; exit 5",
                                   path("ticked"))},
         .environment = base::environment_without({}),
         .deadline = std::chrono::seconds(60),
         .tick = [&] {
             if (++ticks == 2) append("ticked", "");
         }});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->exit_code, 5);
    EXPECT_EQ(result->messages, "oops\n");
    EXPECT_FALSE(result->stopped_by);
    EXPECT_FALSE(result->srun_killed_by);
    EXPECT_GE(ticks, 2);
}

TEST(SrunRunner, SaysOfWhichSignalSrunHasDied) {
    SrunRunner runner;
    const auto result = runner.run(
        {.arguments = {"sh", "-c", "kill -KILL $$"}, .environment = base::environment_without({})});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->exit_code, 137);
    EXPECT_EQ(result->srun_killed_by, SIGKILL);
}

constexpr const char* nobody_answers =
    "echo 'srun: error: Unable to confirm allocation for job 6: Unable to contact slurm controller "
    "(connect failure)' >&2; exit 1";

// Breaks when a job fails because slurmctld was started again just when it began a step.
TEST_F(StepOfScratch, IsTriedAgainWhileNobodyAnswersForSlurm) {
    const std::string tries = path("tries");
    SrunRunner runner;
    const auto result = runner.run(
        {.arguments = {"sh", "-c",
                       fmt::format("echo >> {0}; [ $(wc -l < {0}) -gt 1 ] || {{ {1}; }}; exit 5",
                                   tries, nobody_answers)},
         .environment = base::environment_without({})});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->exit_code, 5);
    EXPECT_EQ(result->messages, "");
    EXPECT_EQ(base::read_file(tries).value(), "\n\n");
}

TEST(SrunRunner, IsStoppedWhileItWaitsForSomebodyToAnswer) {
    SrunRunner runner;
    std::vector<int> seen;
    // The program has ended long before the third tick, half a second later.
    int ticks = 0;
    const auto result = runner.run({.arguments = {"sh", "-c", nobody_answers},
                                    .environment = base::environment_without({}),
                                    .tick =
                                        [&] {
                                            if (++ticks == 3) raise(SIGTERM);
                                        },
                                    .pass_on = [&](int signal) -> std::optional<int> {
                                        seen.push_back(signal);
                                        return std::nullopt;
                                    }});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->stopped_by, SIGTERM);
    EXPECT_EQ(seen, std::vector{SIGTERM});
    EXPECT_EQ(result->exit_code, 1);
}

TEST(SrunRunner, LetsHeldTasksGoWhenAllOfThemRun) {
    SrunRunner runner;
    // Two tasks behind one srun; the first would wait for ever for the second's line.
    const auto result = runner.run(
        {.arguments = {"bash", "-c", "echo; read -t 0.3 early && exit 4; echo; read word; exit 6"},
         .environment = base::environment_without({}),
         .deadline = std::chrono::seconds(20),
         .held_tasks = 2});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->exit_code, 6);
}

TEST(SrunRunner, EndsTheWaitOfHeldTasksWhenOneHasFailed) {
    SrunRunner runner;
    const auto result =
        runner.run({.arguments = {"sh", "-c",
                                  "echo; echo 'srun: error: h1: task 0: Exited with exit code 1' "
                                  ">&2; read word || exit 7"},
                    .environment = base::environment_without({}),
                    .deadline = std::chrono::seconds(20),
                    .held_tasks = 2});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->exit_code, 7);
}

// Breaks when a step without a single task counts as a success, or the tasks that have started wait
// for those that have not until the job's time limit.
TEST(SrunRunner, DoesNotBelieveSrunAfterALaunchThatFailed) {
    SrunRunner runner;
    const StepRequest none{
        .arguments = {"sh", "-c", "echo 'srun: error: task 0 launch failed: Why not' >&2"},
        .environment = base::environment_without({})};
    const auto result = runner.run(none);
    ASSERT_TRUE(result);
    EXPECT_EQ(result->exit_code, 1);
    EXPECT_EQ(result->not_started, (std::vector<NotStarted>{{0, "", "Why not"}}));

    StepRequest some = none;
    some.arguments.back() += "; exec sleep 60";
    some.deadline = std::chrono::seconds(30);
    some.starts = ExpectedStarts{.files = record::JobFiles("/nonexistent"),
                                 .step = "1",
                                 .nodes = 1,
                                 .node_of_task = {"h1", "h1"},
                                 .error_files = {}};
    const auto ended = runner.run(some);
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->exit_code, 128 + SIGTERM);
    EXPECT_EQ(ended->not_started.at(0).node, "h1");
}

TEST(SrunRunner, CountsTheHeldTasksThatRun) {
    SrunRunner runner;
    const auto result = runner.run({.arguments = {"sh", "-c", "echo"},
                                    .environment = base::environment_without({}),
                                    .deadline = std::chrono::seconds(20),
                                    .held_tasks = 2});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->exit_code, 1);
    EXPECT_EQ(result->not_started.at(0).reason, "1 of 2 tasks have not said that they run");
}

TEST(SrunRunner, LeavesOutWhatSrunSaysWithoutNeed) {
    SrunRunner runner;
    const auto result =
        runner.run({.arguments = {"sh", "-c",
                                  "echo first >&2; echo 'srun: cluster configuration lacks support "
                                  "for cpu binding' >&2; echo last >&2"},
                    .environment = base::environment_without({})});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->messages, "first\nlast\n");
}

TEST(SrunRunner, ForwardsTermAndSaysSo) {
    SrunRunner runner;
    const auto result = runner.run(
        {.arguments = {"sh", "-c",
                       "trap 'exit 9' TERM; kill -TERM $PPID; while :; do sleep 0.05; done"},
         .environment = base::environment_without({})});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->exit_code, 9);
    EXPECT_EQ(result->stopped_by, SIGTERM);
}

// Breaks when a notice is lost that comes beside a step or between two, or other signals with it.
TEST(SrunRunner, KnowsOfANoticeAndKeepsOtherSignals) {
    SrunRunner runner;
    EXPECT_FALSE(runner.end_is_near());
    const auto result =
        runner.run({.arguments = {"sh", "-c", "kill -URG $PPID; sleep 0.1"},
                    .environment = base::environment_without({}),
                    .pass_on = [](int signal) -> std::optional<int> { return signal; }});
    ASSERT_TRUE(result);
    EXPECT_TRUE(runner.end_is_near());

    SrunRunner another;
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGTERM);
    kill(getpid(), plan::checkpoint_notice);
    EXPECT_TRUE(another.end_is_near());
    std::vector<int> seen;
    // The program goes on until both were seen.
    const auto later = another.run({.arguments = {"sleep", "60"},
                                    .environment = base::environment_without({}),
                                    .deadline = std::chrono::seconds(30),
                                    .pass_on = [&](int signal) -> std::optional<int> {
                                        seen.push_back(signal);
                                        if (seen.size() < 2) return std::nullopt;
                                        return SIGTERM;
                                    }});
    ASSERT_TRUE(later);
    EXPECT_EQ(later->stopped_by, SIGTERM);
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, (std::vector<int>{SIGUSR1, SIGTERM}));
    EXPECT_EQ(another.stopped_by(), std::nullopt);
    kill(getpid(), SIGTERM);
    EXPECT_TRUE(another.end_is_near());
    EXPECT_EQ(another.stopped_by(), SIGTERM);
}

TEST(SrunRunner, SignalsTheTasksOfItsStep) {
    SrunRunner runner;
    EXPECT_FALSE(runner.signal_tasks(SIGUSR1));
    const auto result = runner.run(
        {.arguments = {"bash", "-c",
                       "trap 'exit 9' USR1; kill -HUP $PPID; while :; do sleep 0.05; done"},
         .environment = base::environment_without({}),
         .pass_on = [&](int) -> std::optional<int> {
             EXPECT_TRUE(runner.signal_tasks(SIGUSR1));
             return std::nullopt;
         }});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->exit_code, 9);
    EXPECT_FALSE(runner.signal_tasks(SIGUSR1));
}

TEST(SrunRunner, EndsTheStepOnceItHasRunEnough) {
    SrunRunner runner;
    int asked = 0;
    const auto result = runner.run({.arguments = {"sleep", "60"},
                                    .environment = base::environment_without({}),
                                    .deadline = std::chrono::seconds(30),
                                    .enough = [&] { return ++asked == 2; }});
    ASSERT_TRUE(result);
    EXPECT_TRUE(result->ended_on_request);
    EXPECT_EQ(result->exit_code, 128 + SIGTERM);
    EXPECT_FALSE(result->stopped_by);
}

TEST(BackgroundStep, TellsHowItEndedAndIsEndedByItsSignal) {
    const auto start = [](const char* script, int end_signal) {
        return BackgroundStep::start({"sh", "-c", script}, base::environment_without({}),
                                     {.messages_path = "/dev/null", .end_signal = end_signal});
    };
    auto short_one = start("exit 3", SIGTERM);
    ASSERT_TRUE(short_one) << short_one.error().text();
    while (short_one->runs())
        usleep(10000);
    EXPECT_EQ(short_one->exit_code(), 3);

    base::Pipe pipe = base::make_pipe().value();
    {
        auto step = BackgroundStep::start(
            {"sh", "-c", "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.05; done"},
            base::environment_without({}),
            {.messages_path = "/dev/null", .output = pipe.write_end.get(), .end_signal = SIGTERM});
        ASSERT_TRUE(step);
        pipe.write_end.reset(-1);
        std::string said;
        while (said.empty())
            ASSERT_TRUE(base::drain(pipe.read_end.get(), said));
        EXPECT_TRUE(step->runs());
        EXPECT_FALSE(step->exit_code());
    }
    EXPECT_EQ(base::read_to_end(pipe.read_end.get()), "asked\n");
}

TEST(SrunRunner, StopsAtTheDeadline) {
    SrunRunner runner;
    const auto result = runner.run({.arguments = {"sleep", "60"},
                                    .environment = base::environment_without({}),
                                    .deadline = std::chrono::seconds(1)});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().exit_code, base::ExitCode::timed_out);
}

// Breaks when a step fails because Slurm has suspended its job for longer than the step may take.
TEST(SrunRunner, LeavesTheTimeOutInWhichItIsStopped) {
    SrunRunner runner;
    const auto result = runner.run(
        {.arguments = {"sh", "-c", "kill -STOP $PPID; sleep 6; kill -CONT $PPID; sleep 1; exit 5"},
         .environment = base::environment_without({}),
         .deadline = std::chrono::seconds(4)});
    ASSERT_TRUE(result) << result.error().text();
    EXPECT_EQ(result->exit_code, 5);
}

TEST(SrunRunner, StartsTheProgramWithNoSignalBlocked) {
    SrunRunner runner;
    const auto result = runner.run({.arguments = {"sh", "-c", "grep SigBlk /proc/self/status >&2"},
                                    .environment = base::environment_without({})});
    ASSERT_TRUE(result);
    EXPECT_NE(result->messages.find("0000000000000000"), std::string::npos);
}

}  // namespace batchai::run
