// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/last_words.hpp"

#include <string>

#include <gtest/gtest.h>

#include "base/utf8.hpp"

namespace batchai::record {

Attempt failed_start() {
    Attempt attempt;
    attempt.number = 2;
    attempt.slurm_job_id = "17";
    attempt.end = attempt.start;
    attempt.exit_code = 1;
    attempt.ended_by = EndedBy::start;
    attempt.phases = {{.name = "outputs", .start = {}, .end = {}}};
    attempt.failure = Failure{.code = "JobStartFailed",
                              .message = "The job could not be started",
                              .node = "h2",
                              .rank = 1,
                              .first_error_line = "a \"b\"\nno space left on device"};
    return attempt;
}

TEST(LastWords, ComeBackFromTheComment) {
    const std::string comment = comment_with_end("batchai:some/path", failed_start());
    EXPECT_EQ(comment.find('\n'), std::string::npos);
    EXPECT_TRUE(comment.starts_with("batchai:some/path "));
    Attempt expected = failed_start();
    expected.phases.clear();
    EXPECT_EQ(end_in_comment(comment), expected);
    EXPECT_FALSE(end_in_comment("batchai:some/path"));
    // A job may have no other comment, and scontrol prints none of the blanks around it.
    EXPECT_EQ(end_in_comment(comment_with_end("", failed_start())), expected);
    EXPECT_EQ(comment_with_end("", failed_start()).front(), 'b');
    EXPECT_FALSE(end_in_comment("notbatchai-end={}"));
}

// Breaks when Slurm refuses the comment of a job that fails for the second time.
TEST(LastWords, ReplaceEarlierOnesAndStayShort) {
    Attempt attempt = failed_start();
    // Wherever it is cut, no part of a character stays, with which nobody could read it.
    attempt.failure->first_error_line = "x";
    for (int i = 0; i < 2500; ++i)
        attempt.failure->first_error_line += "\u00e4";
    const std::string once = comment_with_end("mine", attempt);
    EXPECT_LE(once.size(), 1000U);
    EXPECT_TRUE(base::is_utf8(once));
    const std::string twice = comment_with_end(once, failed_start());
    EXPECT_EQ(twice, comment_with_end("mine", failed_start()));
    EXPECT_EQ(end_in_comment(once)->failure->code, "JobStartFailed");
}

}  // namespace batchai::record
