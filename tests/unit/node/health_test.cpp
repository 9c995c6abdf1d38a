// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/health.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace batchai::node {
namespace {

namespace fs = std::filesystem;
using record::HealthOutcome;
using testing::HasSubstr;
using testing::IsEmpty;

class HealthTest : public testing::Test {
  protected:
    void SetUp() override {
        if (geteuid() != 0) GTEST_SKIP() << "only root can make checks that are trusted";
        directory_ = fs::path("/run") / ("batchai-health-" + std::to_string(getpid()));
        fs::create_directories(directory_);
    }
    void TearDown() override { fs::remove_all(directory_); }

    void program(const std::string& name, const std::string& text, int mode = 0755) const {
        std::ofstream(directory_ / name) << "#!/bin/sh\n" << text << "\n";
        fs::permissions(directory_ / name, fs::perms(mode));
    }
    [[nodiscard]] record::HealthReport check(int limit = 20, int total = 60) const {
        return check_health({.directory = directory_.string(),
                             .time_limit_seconds = limit,
                             .total_seconds = total});
    }
    fs::path directory_;
};

TEST_F(HealthTest, JudgesByTheExitCode) {
    program("1-ok", "echo fine");
    program("2-warns", "echo; echo hot >&2; exit 10");
    program("3-failed", "exit 2");
    program("4-missing", "no-such-program");
    program("5-killed", "kill -SEGV $$");
    program("6-not-executable", "exit 1", 0644);
    const auto report = check();
    EXPECT_EQ(report.refused, "");
    ASSERT_EQ(report.checks.size(), 5U);
    EXPECT_EQ(report.checks[0].outcome, HealthOutcome::ok);
    EXPECT_EQ(report.checks[1].outcome, HealthOutcome::warning);
    EXPECT_EQ(report.checks[1].line, "hot");
    EXPECT_EQ(report.checks[2].outcome, HealthOutcome::failed);
    EXPECT_EQ(report.checks[2].line, "exit code 2");
    EXPECT_EQ(report.checks[3].outcome, HealthOutcome::unknown);
    EXPECT_EQ(report.checks[4].outcome, HealthOutcome::failed);
    EXPECT_THAT(report.checks[4].line, HasSubstr("signal 11"));
}

TEST_F(HealthTest, DoesNotWaitForAProgramThatHangs) {
    program("1-hangs", "trap '' TERM; echo begun; sleep 1000 & wait");
    program("2-daemon", "sleep 1000 &");
    const auto begin = std::chrono::steady_clock::now();
    const auto report = check(1);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
    ASSERT_EQ(report.checks.size(), 2U);
    EXPECT_EQ(report.checks[0].outcome, HealthOutcome::failed);
    EXPECT_EQ(report.checks[0].line, "begun (did not end within 1 s)");
    EXPECT_EQ(report.checks[1].outcome, HealthOutcome::ok);
}

TEST_F(HealthTest, StopsWhenAllHaveTakenTooLong) {
    program("1-slow", "sleep 1000");
    program("2-late", "true");
    const auto report = check(10, 1);
    ASSERT_EQ(report.checks.size(), 2U);
    EXPECT_EQ(report.checks[0].outcome, HealthOutcome::failed);
    EXPECT_EQ(report.checks[1].outcome, HealthOutcome::unknown);
}

TEST_F(HealthTest, KeepsOnlyTheBeginOfWhatIsPrinted) {
    program("1-long", "head -c 10000000 /dev/zero | tr '\\0' x; printf '\\n\\033[2J'; exit 1");
    const auto report = check();
    ASSERT_EQ(report.checks.size(), 1U);
    EXPECT_EQ(report.checks[0].line, std::string(300, 'x'));
}

TEST_F(HealthTest, RunsNothingThatOthersCouldChange) {
    program("1-open", "true", 0777);
    auto report = check();
    ASSERT_EQ(report.checks.size(), 1U);
    EXPECT_EQ(report.checks[0].outcome, HealthOutcome::unknown);
    EXPECT_THAT(report.checks[0].line, HasSubstr("can be written to by others"));
    for (const int mode : {0777, 01777}) {
        fs::permissions(directory_, fs::perms(mode));
        report = check();
        EXPECT_THAT(report.refused, HasSubstr("can be written to by others"));
        EXPECT_THAT(report.checks, IsEmpty());
    }
    fs::remove_all(directory_);
    EXPECT_THAT(check().refused, HasSubstr("No such file"));
}

TEST_F(HealthTest, GivesTheProgramsAnEnvironmentOfTheirOwn) {
    setenv("LD_LIBRARY_PATH", "/of/the/user", 1);
    setenv("SLURMD_NODENAME", "n7", 1);
    program("1-env", "echo \"[$LD_LIBRARY_PATH] $SLURMD_NODENAME\"; exit 10");
    const auto report = check();
    unsetenv("LD_LIBRARY_PATH");
    ASSERT_EQ(report.checks.size(), 1U);
    EXPECT_EQ(report.checks[0].line, "[] n7");
}

}  // namespace
}  // namespace batchai::node
