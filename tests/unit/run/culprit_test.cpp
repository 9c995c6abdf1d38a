// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/blame/culprit.hpp"

#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
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
    [[nodiscard]] std::optional<Culprit> of(const std::vector<TaskEnd>& ends) const {
        return culprit(ends, {.error_files = {path("0"), path("1"), path("2")},
                              .refusals = path("refused"),
                              .rank_failures = path("failure")});
    }
    // As libmpi_bridge writes it.
    static std::string failure(const std::string& cause) {
        return R"({"schema": "mpi_bridge-failure/v1", "cause": ")" + cause +
               R"(", "text": "mpib_allreduce, rank 0 of 3"})";
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
    EXPECT_EQ(of({exited(0, 1), killed(1, SIGSEGV), exited(2, 1)})->end.task, 1);
}

TEST_F(CulpritTest, IsTheEarlierOfTwo) {
    said("error: a\n", "error: b\n", "");
    const auto found = of({exited(1, 3), exited(0, 1)});
    EXPECT_EQ(found->end.task, 1);
    EXPECT_EQ(found->line, "error: b");
}

TEST_F(CulpritTest, IsNotWhoOnlyReportsAnothersDeath) {
    said("HorovodInternalError: whatever it says\n", "", "KeyError: x\n");
    append("failure.0.json", failure("peerLost"));
    append("failure.2.json", failure("other"));
    EXPECT_EQ(of({exited(0, 1), exited(2, 1)})->end.task, 2);
}

TEST_F(CulpritTest, IsNotWhoseConnectionSomebodyElseBroke) {
    said("ConnectionResetError: [Errno 104] Connection reset by peer\n", "", "KeyError: x\n");
    EXPECT_EQ(of({exited(0, 1), exited(2, 1)})->end.task, 2);
    // libmpi_bridge knows better than the words of others.
    append("failure.0.json", failure("other"));
    EXPECT_EQ(of({exited(0, 1), exited(2, 1)})->end.task, 0);
}

TEST_F(CulpritTest, IsToldByThePluginIfItLetNoTaskRun) {
    said("", "batchai: node n: warning: an error that is none\n", "");
    append("refused.1.txt", "/tmp/batchai-7: belongs to another user\nhint: cannot go on?\n");
    EXPECT_EQ(of({exited(1, 1)})->line, "/tmp/batchai-7: belongs to another user");
}

TEST_F(CulpritTest, IsAVictimOnlyWhereItEndedTheStepItself) {
    append("failure.0.json", failure("peerLost"));
    append("failure.2.json", failure("aborted"));
    EXPECT_FALSE(of({killed(0, SIGKILL, true), killed(1, SIGKILL, true)}));
    const auto found = of({killed(0, SIGKILL, true), killed(2, SIGKILL, true)});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->end.task, 2);
    EXPECT_FALSE(found->end.signal);
}

// Breaks when a rank that Slurm terminated is blamed in place of the one for which it did so.
TEST_F(CulpritTest, IsWhoAbortedTheStepAlsoIfAVictimIsToldFirst) {
    append("failure.2.json", failure("aborted"));
    const auto found = of({killed(1, SIGTERM), exited(2, 1), killed(0, SIGTERM, true)});
    EXPECT_EQ(found->end.task, 2);
    EXPECT_EQ(found->end.exit_code, 1);
    EXPECT_EQ(of({killed(1, SIGTERM), exited(0, 1)})->end.task, 1) << "it has no report";
    EXPECT_EQ(of({killed(1, SIGKILL), exited(2, 1)})->end.task, 1);
    std::filesystem::remove(path("failure.2.json"));
    append("failure.2.json",
           R"({"schema": "mpi_bridge-failure/v1", "cause": "aborted", "text": "rank 2: uncaught )"
           R"(HorovodInternalError: allreduce: lost rank 1; look for its first error"})");
    EXPECT_EQ(of({killed(1, SIGTERM), exited(2, 1)})->end.task, 1);
}

TEST_F(CulpritTest, IsToldWithTheEvidence) {
    said("Connection reset by peer\n", "KeyError: x\n", "");
    const std::vector<TaskEnd> ends{exited(0, 1), exited(1, 1), killed(2, SIGKILL, true)};
    EXPECT_EQ(of(ends)->evidence,
              "which rank is to blame is guessed from standard error, because rank 0 has no report "
              "that can be used: " +
                  path("failure.0.json") + ": cannot read: No such file or directory");
    append("failure.0.json", failure("peerLost"));
    append("failure.1.json", failure("nonsense"));
    EXPECT_THAT(of(ends)->evidence,
                testing::StartsWith("which rank is to blame follows from the reports of "
                                    "libmpi_bridge where there is one (1 of 2 failed ranks) and is "
                                    "else guessed from standard error, because rank 1 has no "
                                    "report that can be used: " +
                                    path("failure.1.json") + ": "));
    std::filesystem::remove(path("failure.1.json"));
    append("failure.1.json", failure("other"));
    EXPECT_EQ(of(ends)->evidence,
              "which rank is to blame follows from the reports of libmpi_bridge");
    const auto of_nodes = culprit(ends, {.error_files = {path("0"), path("1"), path("2")}});
    EXPECT_EQ(of_nodes->evidence, "") << "preparation has no ranks";
}

TEST_F(CulpritTest, WhoseFileIsMissingIsStillNamed) {
    const auto found = of({exited(7, 4)});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->end.task, 7);
    EXPECT_EQ(found->line, "");
}

TEST(ExitCodeOf, IsAsAShellSaysIt) {
    EXPECT_EQ(exit_code_of({"n", 0, {}, 5}, 1), 5);
    EXPECT_EQ(exit_code_of({"n", 0, SIGABRT, {}}, 1), 128 + SIGABRT);
    EXPECT_EQ(exit_code_of({"n", 0, {}, {}}, 9), 9);
}

}  // namespace batchai::run
