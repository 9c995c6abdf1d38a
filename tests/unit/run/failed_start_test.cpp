// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdlib>

#include <gtest/gtest.h>

#include "record/attempt.hpp"
#include "run/blame/outside.hpp"
#include "scratch.hpp"

namespace batchai::run {

class FailedStartTest : public ScratchTest {
  protected:
    void SetUp() override {
        ScratchTest::SetUp();
        // Of a job around this one.
        setenv("SLURM_ARRAY_TASK_ID", "5", 1);
        setenv("SLURM_RESTART_COUNT", "4", 1);
    }
    void TearDown() override {
        for (const char* name : {"SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT"})
            unsetenv(name);
        ScratchTest::TearDown();
    }
    [[nodiscard]] std::optional<record::Attempt> recorded() const {
        record_failed_start(path("plan.json"),
                            {.what = "changed since submission",
                             .where = "plan.json",
                             .hint = "submit it again",
                             .exit_code = base::ExitCode::refused},
                            {.job_id = "12", .restart = 1, .nodes = {"n3", "n4"}});
        return record::latest_attempt(record::JobFiles(directory_)).value();
    }
};

TEST_F(FailedStartTest, IsAnAttemptThatEndedAtOnce) {
    const auto attempt = recorded();
    ASSERT_TRUE(attempt);
    EXPECT_EQ(attempt->number, 2);
    EXPECT_EQ(attempt->slurm_job_id, "12");
    EXPECT_EQ(attempt->exit_code, static_cast<int>(base::ExitCode::refused));
    EXPECT_TRUE(attempt->end);
    ASSERT_TRUE(attempt->failure);
    EXPECT_EQ(attempt->failure->phase, "start");
    EXPECT_EQ(attempt->failure->node, "n3");
    EXPECT_EQ(attempt->failure->first_error_line, "plan.json: changed since submission");
}

TEST_F(FailedStartTest, IsNotRecordedInADirectoryThatOthersCanWrite) {
    std::filesystem::permissions(directory_, std::filesystem::perms::all);
    EXPECT_FALSE(recorded());
}

}  // namespace batchai::run
