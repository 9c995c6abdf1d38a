// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/attempt.hpp"

#include <gtest/gtest.h>

#include "base/file.hpp"
#include "record/job_files.hpp"
#include "scratch.hpp"

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
    attempt.ended_by = record::EndedBy::program;
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

TEST(AttemptRecord, RefusesDamageAndNamesTheKey) {
    std::string text = to_json(example());
    text.replace(text.find("\"phases\""), 8, "\"fazes\" ");
    const auto again = record::attempt_from_json(text);
    ASSERT_FALSE(again);
    EXPECT_NE(again.error().what.find("phases"), std::string::npos);
    EXPECT_FALSE(record::attempt_from_json("{"));
    EXPECT_FALSE(record::attempt_from_json("[]"));
}

class LatestAttempt : public ScratchTest {};

TEST_F(LatestAttempt, IsTheHighestNumberAmongOtherFiles) {
    const record::JobFiles files(directory_);
    ASSERT_TRUE(base::make_directories(files.attempts()));
    for (const char* other : {"1.json.partial", "notes.txt", "x2.json", "-3.json"})
        ASSERT_TRUE(base::write_atomically(files.attempts() / other, "{}"));
    const auto none = record::latest_attempt(files);
    ASSERT_TRUE(none) << none.error().text();
    EXPECT_FALSE(none->has_value());

    for (const int number : {2, 10, 9}) {
        record::Attempt attempt = example();
        attempt.number = number;
        ASSERT_TRUE(base::write_atomically(files.attempt(number), to_json(attempt)));
    }
    const auto latest = record::latest_attempt(files);
    ASSERT_TRUE(latest) << latest.error().text();
    ASSERT_TRUE(latest->has_value());
    EXPECT_EQ(latest->value().number, 10);
}

class SettledAttempt : public ScratchTest {
  protected:
    using By = record::EndedBy;
    // How attempt 1 has ended, by its record, after attempt 2 began and knew `by`.
    std::optional<By> settled(std::optional<By> recorded, std::optional<By> by) {
        const record::JobFiles files(directory_);
        record::Attempt attempt = example();
        attempt.ended_by = recorded;
        EXPECT_TRUE(base::make_directories(files.attempts()));
        EXPECT_TRUE(base::write_atomically(files.attempt(1), to_json(attempt)));
        EXPECT_TRUE(record::settle_earlier_attempt(files, 2, by));
        return record::all_attempts(files).value().at(0).ended_by;
    }
};

TEST_F(SettledAttempt, WithoutAWordWasLostWithItsNode) {
    EXPECT_EQ(settled({}, {}), By::node);
    EXPECT_EQ(settled({}, By::preemption), By::preemption);
}

TEST_F(SettledAttempt, WasNotCancelledByTheUser) {
    EXPECT_EQ(settled(By::user, {}), By::requeue);
    EXPECT_EQ(settled(By::user, By::preemption), By::preemption);
    EXPECT_EQ(settled({}, By::user), By::requeue);
}

TEST_F(SettledAttempt, KeepsWhatItKnew) {
    EXPECT_EQ(settled(By::time_limit, By::preemption), By::time_limit);
    EXPECT_EQ(settled(By::program, {}), By::program);
}

TEST_F(SettledAttempt, MayNotExist) {
    EXPECT_TRUE(record::settle_earlier_attempt(record::JobFiles(path("none")), 2, {}));
}

}  // namespace batchai::run
