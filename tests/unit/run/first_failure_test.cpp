// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/first_failure.hpp"

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
    EXPECT_FALSE(blames_a_peer("ZeroDivisionError: division by zero"));
}

}  // namespace batchai::run
