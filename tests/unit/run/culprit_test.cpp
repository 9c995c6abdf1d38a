// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/blame/culprit.hpp"

#include <csignal>

#include <gtest/gtest.h>

#include "scratch.hpp"

namespace batchai::run {

class CulpritTest : public ScratchTest {
  protected:
    // Three ranks' standard error.
    void said(const std::string& zero, const std::string& one, const std::string& two) {
        append("0", zero);
        append("1", one);
        append("2", two);
    }
    [[nodiscard]] std::optional<std::pair<TaskEnd, std::string>> of(
        const std::vector<TaskEnd>& ends) const {
        return culprit(ends, {path("0"), path("1"), path("2")});
    }
    static TaskEnd exited(int task, int code, bool victim = false) {
        return {.node = "n", .task = task, .signal = {}, .exit_code = code, .victim = victim};
    }
    static TaskEnd killed(int task, int signal, bool victim = false) {
        return {.node = "n", .task = task, .signal = signal, .exit_code = {}, .victim = victim};
    }
};

TEST_F(CulpritTest, NobodyWhenNobodyFailed) {
    EXPECT_FALSE(of({}));
}

TEST_F(CulpritTest, IsTheOneWhoDiedOfASignal) {
    said("error: a\n", "", "error: c\n");
    EXPECT_EQ(of({exited(0, 1), killed(1, SIGSEGV), exited(2, 1)})->first.task, 1);
}

TEST_F(CulpritTest, IsTheEarlierOfTwo) {
    said("error: a\n", "error: b\n", "");
    const auto found = of({exited(1, 3), exited(0, 1)});
    EXPECT_EQ(found->first.task, 1);
    EXPECT_EQ(found->second, "error: b");
}

TEST_F(CulpritTest, IsNotWhoOnlyReportsAnothersDeath) {
    said("mpib_allreduce, rank 0 of 3: lost rank 2 while sending to it\n", "", "KeyError: x\n");
    EXPECT_EQ(of({exited(0, 1), exited(2, 1)})->first.task, 2);
}

TEST_F(CulpritTest, IsAVictimOnlyWhereItEndedTheStepItself) {
    said("", "", "mpi_bridge: rank 2 of 3 aborted: rank 2: no data\n");
    EXPECT_FALSE(of({killed(0, SIGKILL, true), killed(1, SIGKILL, true)}));
    const auto found = of({killed(0, SIGKILL, true), killed(2, SIGKILL, true)});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->first.task, 2);
    EXPECT_FALSE(found->first.signal);
}

TEST_F(CulpritTest, WhoseFileIsMissingIsStillNamed) {
    const auto found = of({exited(7, 4)});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->first.task, 7);
    EXPECT_EQ(found->second, "");
}

TEST(ExitCodeOf, IsAsAShellSaysIt) {
    EXPECT_EQ(exit_code_of({"n", 0, {}, 5}, 1), 5);
    EXPECT_EQ(exit_code_of({"n", 0, SIGABRT, {}}, 1), 128 + SIGABRT);
    EXPECT_EQ(exit_code_of({"n", 0, {}, {}}, 9), 9);
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
