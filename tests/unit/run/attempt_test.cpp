// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/attempt.hpp"

#include <gtest/gtest.h>

#include "record/job_files.hpp"

namespace batchai::run {

namespace {

record::Attempt example() {
    record::Attempt attempt;
    attempt.number = 1;
    attempt.slurm_job_id = "42";
    attempt.nodes = {"n1", "n2"};
    attempt.start = *base::from_iso8601("2026-11-21T04:00:00.000001+00:00");
    attempt.end = *base::from_iso8601("2026-11-21T04:00:05+00:00");
    attempt.exit_code = 137;
    attempt.phases = {{"outputs", attempt.start, attempt.start, 0},
                      {"ranks", attempt.start, std::nullopt, 0}};
    attempt.restarts = {{.time = *attempt.end,
                         .nodes = {"n1"},
                         .failure = {.code = "JobFailed",
                                     .message = "lost",
                                     .phase = "ranks",
                                     .node = "n2",
                                     .rank = 1,
                                     .exit_code = 1}}};
    attempt.failure = record::Failure{.code = "JobFailed",
                                      .message = "Job failed",
                                      .phase = "ranks",
                                      .node = "n2",
                                      .rank = 3,
                                      .signal = 9,
                                      .first_error_line = "boom \"quoted\""};
    return attempt;
}

}  // namespace

TEST(AttemptRecord, RoundTrips) {
    const auto again = record::attempt_from_json(to_json(example()));
    ASSERT_TRUE(again) << again.error().text();
    EXPECT_EQ(*again, example());
}

TEST(AttemptRecord, OfAnOlderVersionHasNoRestarts) {
    std::string text = to_json(example());
    text.replace(text.find("\"restarts\""), 10, "\"something\"");
    const auto again = record::attempt_from_json(text);
    ASSERT_TRUE(again) << again.error().text();
    EXPECT_TRUE(again->restarts.empty());
}

TEST(AttemptRecord, RefusesDamageAndNamesTheKey) {
    std::string text = to_json(example());
    text.replace(text.find("\"phases\""), 8, "\"fazes\" ");
    const auto again = record::attempt_from_json(text);
    ASSERT_FALSE(again);
    EXPECT_NE(again.error().what.find("phases"), std::string::npos);
    EXPECT_FALSE(record::attempt_from_json("{"));
    EXPECT_FALSE(record::attempt_from_json("[]"));
}

TEST(LatestAttempt, IsNothingBeforeTheFirst) {
    const auto latest = record::latest_attempt(record::JobFiles("/nonexistent"));
    ASSERT_TRUE(latest);
    EXPECT_FALSE(latest->has_value());
}

}  // namespace batchai::run
