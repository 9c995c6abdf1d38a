// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/blame/first_failure.hpp"

#include <csignal>

#include <gtest/gtest.h>

namespace batchai::run {

// The lines below are what srun of Slurm 22.05.8 prints.
TEST(BadEnds, NamesNodeTaskAndExitCode) {
    const auto ends = bad_ends("srun: error: n3: task 2: Exited with exit code 7\n");
    ASSERT_EQ(ends.size(), 1U);
    EXPECT_EQ(ends[0], (TaskEnd{"n3", 2, std::nullopt, 7}));
}

TEST(BadEnds, ReadsSignalsWithAndWithoutACoreDump) {
    const auto ends = bad_ends(
        "srun: error: n1: task 0: Segmentation fault (core dumped)\n"
        "srun: error: n2: tasks 1-2: Killed\n");
    ASSERT_EQ(ends.size(), 3U);
    EXPECT_EQ(ends[0].signal, SIGSEGV);
    EXPECT_EQ(ends[1].signal, SIGKILL);
    EXPECT_EQ(ends[2].task, 2);
    EXPECT_EQ(ends[2].node, "n2");
}

TEST(BadEnds, LeavesOutTheVictimsOfTheAbort) {
    const auto ends = bad_ends(
        "srun: error: n2: task 1: Exited with exit code 3\n"
        "srun: Terminating StepId=7.2\n"
        "slurmstepd: error: *** STEP 7.2 ON n1 CANCELLED AT 2026-11-21T04:00:00 ***\n"
        "srun: error: n1: task 0: Terminated\n");
    ASSERT_EQ(ends.size(), 1U);
    EXPECT_EQ(ends[0].task, 1);
}

TEST(BadEnds, MarksWhatWasKilledAfterARankAbortedTheStep) {
    const auto ends = bad_ends(
        "slurmstepd-h1: error: *** STEP 27.2 ON h1 CANCELLED AT 2026-11-21T06:21:08 ***\n"
        "srun: Job step aborted: Waiting up to 7 seconds for job step to finish.\n"
        "srun: error: h2: task 1: Killed\n"
        "srun: launch/slurm: _step_signal: Terminating StepId=27.2\n"
        "srun: error: h1: task 0: Exited with exit code 1\n"
        "srun: error: h3: task 2: Exited with exit code 143\n");
    ASSERT_EQ(ends.size(), 3U);
    EXPECT_EQ(ends[0], (TaskEnd{"h2", 1, SIGKILL, std::nullopt, true}));
    EXPECT_EQ(ends[1], (TaskEnd{"h1", 0, std::nullopt, 1, false}));
    EXPECT_TRUE(ends[2].victim);
}

TEST(BadEnds, KnowsNothingFromOtherLines) {
    EXPECT_TRUE(bad_ends("srun: error: Unable to create step: oops\nhello\n").empty());
    EXPECT_TRUE(bad_ends("srun: error: n1: task x: Exited with exit code 1\n").empty());
    EXPECT_TRUE(bad_ends("").empty());
}

TEST(FirstErrorLine, IsTheLastLineOfTheFirstTraceback) {
    EXPECT_EQ(first_error_line("warning: an error may follow\n"
                               "Traceback (most recent call last):\n"
                               "  File \"train.py\", line 3, in <module>\n"
                               "    x = 1 / 0\n"
                               "ZeroDivisionError: division by zero\n"
                               "other error\n"),
              "ZeroDivisionError: division by zero");
}

TEST(FirstErrorLine, IsThePluginsWhereItLetNoTaskRun) {
    EXPECT_EQ(first_error_line("batchai: node n1: warning: PMIx's directory cannot be reached\n"
                               "batchai: node n1: /tmp/batchai-7: belongs to another user\n"
                               "hint: cannot go on? ask the admin\n"),
              "batchai: node n1: /tmp/batchai-7: belongs to another user");
}

TEST(FirstErrorLine, IsElseTheFirstLineThatLooksLikeOne) {
    EXPECT_EQ(first_error_line("starting\nbash: foo: No such file or directory\nbye\n"),
              "bash: foo: No such file or directory");
}

TEST(FirstErrorLine, IsElseTheLastThingSaid) {
    EXPECT_EQ(first_error_line("one\ntwo\n\n"), "two");
    EXPECT_EQ(first_error_line(""), "");
}

TEST(FirstErrorLine, CarriesNoControlCharacters) {
    EXPECT_EQ(first_error_line("error: \033[31mred\n"), "error:  [31mred");
}

TEST(BlamesAPeer, TellsAReportFromACause) {
    EXPECT_TRUE(blames_a_peer("mpi_bridge: lost peer 2 in allreduce"));
    EXPECT_TRUE(
        blames_a_peer("mpib_allreduce (ring), rank 1 of 4: lost rank 2 while sending to it"));
    EXPECT_FALSE(blames_a_peer("ZeroDivisionError: division by zero"));
}

TEST(AbortedTheStep, KnowsTheLineOfTheRankThatDid) {
    EXPECT_TRUE(aborted_the_step("Traceback\nmpi_bridge: rank 3 of 4 aborted: rank 3: oops\n"));
    EXPECT_FALSE(aborted_the_step("the job aborted: no mpi_bridge: rank 3\n"));
}

}  // namespace batchai::run
