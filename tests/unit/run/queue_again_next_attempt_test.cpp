// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.hpp"
#include "base/timestamp.hpp"
#include "record/attempt.hpp"
#include "record/ended_by.hpp"
#include "record/job_files.hpp"
#include "record/retries.hpp"
#include "slurm_of_scripts.hpp"

namespace batchai::run {

namespace {

using record::EndedBy;
using testing::HasSubstr;
using testing::Not;

}  // namespace

TEST_F(QueueAgainTest, TheLimitCountsAllAttempts) {
    ASSERT_TRUE(
        record::write_retry_count(record::JobFiles(path("job")), {.attempt = 3, .retries = 2}));
    granted_.restart = 2;
    attempt_that_ends_with(75);
    EXPECT_THAT(asked(), Not(HasSubstr("requeue")));
    EXPECT_THAT(record_.retried->message, HasSubstr("\"retry.max\" is 2"));
}

// Breaks when a job whose count is lost is run again for ever.
TEST_F(QueueAgainTest, WithoutACountEachRequeueOfSlurmCounts) {
    granted_.restart = 2;
    EXPECT_EQ(attempt(), 0);
    std::filesystem::remove_all(path("job"));
    std::filesystem::create_directories(path("job"));
    steps_.requests.clear();
    granted_.restart = 3;
    EXPECT_EQ(attempt(), 1);
    EXPECT_TRUE(steps_.requests.empty());
    EXPECT_THAT(record_.failure->first_error_line, HasSubstr("\"retry.max\" is 2"));
    // With the record of the attempt before it, too.
    std::filesystem::remove_all(path("job"));
    record::Attempt third;
    third.number = 3;
    third.ended_by = EndedBy::node;
    std::filesystem::create_directories(path("job/attempts"));
    ASSERT_TRUE(base::write_atomically(path("job/attempts/3.json"), to_json(third)));
    EXPECT_EQ(attempt(), 1);
    EXPECT_THAT(record_.failure->first_error_line, HasSubstr("\"retry.max\" is 2"));
}

TEST_F(QueueAgainTest, ACountThatCannotBeReadEndsTheJob) {
    append("job/retries.json", "{");
    granted_.restart = 1;
    EXPECT_EQ(attempt(), 1);
    EXPECT_TRUE(steps_.requests.empty());
    EXPECT_THAT(record_.failure->first_error_line, HasSubstr("cannot be read"));
    EXPECT_THAT(asked(), Not(HasSubstr("requeue")));
}

// Breaks when Slurm's own requeue escapes the limit or the list of causes.
TEST_F(QueueAgainTest, ARequeueOfSlurmsIsJudgedWhenTheNextAttemptBegins) {
    const record::JobFiles files(path("job"));
    std::filesystem::create_directories(path("job/attempts"));
    record::Attempt first;
    first.ended_by = EndedBy::node;
    ASSERT_TRUE(base::write_atomically(files.attempt(1), to_json(first)));
    ASSERT_TRUE(record::write_retry_count(files, {.attempt = 1}));
    granted_.restart = 1;
    EXPECT_EQ(attempt(), 0);
    EXPECT_EQ(count().retries, 1);
    EXPECT_EQ(count().attempt, 2);

    plan_.retry->on = {"75"};
    ASSERT_TRUE(record::write_retry_count(files, {.attempt = 1}));
    EXPECT_EQ(attempt(), 1);
    EXPECT_EQ(record_.ended_by, EndedBy::node);
    EXPECT_THAT(record_.failure->first_error_line, HasSubstr("lostNode"));
}

// Breaks when somebody's requeue of a job that has ended is taken for Slurm's.
TEST_F(QueueAgainTest, AJobThatIsQueuedByHandRuns) {
    setenv("TZ", "UTC", 1);
    has_ended(EndedBy::program, 74, {.attempt = 1});
    granted_.restart = 1;
    was_queued_at("2026-11-24T10:01:00");
    EXPECT_EQ(attempt(), 0);
    EXPECT_EQ(count().retries, 0);
    // The same after it was pre-empted and ended, and at its limit.
    plan_.retry->on = {"75"};
    has_ended(EndedBy::preemption, 143, {.attempt = 1, .retries = 2});
    was_queued_at("2026-11-24T10:03:00");
    EXPECT_EQ(attempt(), 0);
    // Slurm requeues a job that it has pre-empted itself, when nothing is left of it.
    has_ended(EndedBy::preemption, 143, {.attempt = 1, .retries = 2});
    was_queued_at("2026-11-24T10:01:00");
    EXPECT_EQ(attempt(), 1);
    EXPECT_EQ(record_.ended_by, EndedBy::preemption);

    has_ended(EndedBy::program, 74, {.attempt = 1});
    was_queued_at("2026-11-24T09:59:58");
    EXPECT_EQ(attempt(), 1);
    EXPECT_EQ(record_.ended_by, EndedBy::program);
}

// Breaks when the end of an attempt that Slurm has killed while it stored its logs is unknown.
TEST_F(QueueAgainTest, AJobThatIsQueuedByHandRunsAlthoughItsLastAttemptWasCutOff) {
    setenv("TZ", "UTC", 1);
    const auto at = [](const char* time) { return *base::from_iso8601(time); };
    record::Attempt first;
    first.ended_by = EndedBy::time_limit;
    first.phases = {{.name = "ranks",
                     .start = at("2026-11-24T09:00:00"),
                     .end = at("2026-11-24T10:00:00"),
                     .exit_code = 143}};
    const record::JobFiles files(path("job"));
    std::filesystem::create_directories(path("job/attempts"));
    granted_.restart = 1;
    was_queued_at("2026-11-24T10:01:00");
    for (const bool given_up : {true, false}) {
        first.retried.reset();
        if (given_up) first.retried.emplace();
        ASSERT_TRUE(base::write_atomically(files.attempt(1), to_json(first)));
        ASSERT_TRUE(record::write_retry_count(files, {.attempt = 1}));
        EXPECT_EQ(attempt(), given_up ? 0 : 1);
    }
}

// Breaks when the second attempt calls a job failed whose ranks had left well in the first.
TEST_F(QueueAgainTest, APreemptionOfRanksThatEndedWellIsJudgedWhenTheNextAttemptBegins) {
    granted_.restart = 1;
    const record::JobFiles files(path("job"));
    for (const bool named : {true, false}) {
        plan_.retry->on = {named ? "preemption" : "75"};
        steps_.requests.clear();
        has_ended(EndedBy::program, 0, {.attempt = 1});
        // This is what Slurm has written to the batch script's log.
        ASSERT_TRUE(record::settle_earlier_attempt(files, 2, EndedBy::preemption));
        EXPECT_EQ(attempt(), 0);
        EXPECT_EQ(steps_.requests.empty(), !named);
        EXPECT_EQ(count().retries, named ? 1 : 0);
        EXPECT_FALSE(record_.failure);
    }
}

TEST_F(QueueAgainTest, AnAttemptThatWasCountedIsNotCountedAgain) {
    ASSERT_TRUE(
        record::write_retry_count(record::JobFiles(path("job")), {.attempt = 2, .retries = 2}));
    granted_.restart = 1;
    EXPECT_EQ(attempt(), 0);
    EXPECT_EQ(count().retries, 2);
}

}  // namespace batchai::run
