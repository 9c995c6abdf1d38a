// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/history/events.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "facts.hpp"
#include "status/history/numbers.hpp"
#include "status/history/phases.hpp"

namespace batchai::status {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> texts(const std::vector<Event>& events) {
    std::vector<std::string> out;
    for (const Event& event : events)
        out.push_back(event.text);
    return out;
}

TEST(Events, AreInTheOrderOfTimeWithTheFirstFailure) {
    Facts facts = trained();
    record::Attempt& first = facts.attempts.front();
    first.phases.back() = phase("ranks", 43, 90, 139);
    first.end = at(91);
    first.exit_code = 139;
    first.failure = record::Failure{.code = "JobFailed",
                                    .message = "Job failed with non-zero exit code",
                                    .phase = "ranks",
                                    .node = "h3",
                                    .rank = 2,
                                    .signal = 11,
                                    .exit_code = {},
                                    .first_error_line = "out of\nbounds"};
    first.retried =
        record::Retried{.queued = true, .message = "the job is queued again, retry 1 of 3"};
    record::Attempt second = trained().attempts.front();
    second.number = 2;
    second.start = at(120);
    second.end = at(130);
    second.phases = {phase("ranks", 121, 129)};
    second.restarts = {{.time = at(125), .nodes = {"h1"}, .failure = *first.failure}};
    facts.attempts.push_back(second);
    facts.failures = {{.code = "MountError", .text = "no server", .node = "h2", .time = at(3)}};
    facts.job.end = at(131);
    const auto events = events_of(facts);
    EXPECT_THAT(
        texts(events),
        ElementsAre(
            "submitted as Slurm job 17", "attempt 1 began on h1, h2, h3", "phase outputs began",
            "phase outputs ended after 1.0 s", "phase preparation began", "MountError: no server",
            "phase preparation ended after 40 s", "phase wire-up began",
            "phase wire-up ended after 2.0 s", "phase ranks began",
            "phase ranks ended after 47 s with exit code 139",
            "Job failed with non-zero exit code, first on rank 2, by signal 11: out "
            "of\nbounds",
            "attempt 1 ended, by program, with exit code 139",
            "the job is queued again, retry 1 of 3", "attempt 2 began on h1, h2, h3",
            "phase ranks began", HasSubstr("the ranks start again on h1"),
            "phase ranks ended after 8.0 s", "attempt 2 ended, by program, with exit code 0",
            "the job has succeeded, ended by program, with exit code 0"));
    EXPECT_EQ(events[11].rank, 2);
    EXPECT_EQ(events[11].node, "h3");
    // A line for the terminal has no line end of somebody else.
    EXPECT_EQ(line_of(events[11]).find('\n'), std::string::npos);
}

TEST(Events, SayWhyAQueuedJobWaits) {
    Facts facts;
    facts.job = {.name = "train", .slurm_job_id = "17", .state = "queued"};
    facts.job.created = at(0);
    facts.job.why_it_waits = "the nodes are busy";
    facts.now = at(5);
    EXPECT_THAT(texts(events_of(facts)),
                ElementsAre("submitted as Slurm job 17",
                            "waits: the nodes are busy; expected start: unknown"));
    facts.job.expected_start = at(60);
    EXPECT_THAT(texts(events_of(facts)).back(), HasSubstr("2026-06-21 10:01:00 (estimate)"));
}

TEST(Events, AreJson) {
    const auto value = events_value(events_of(trained()));
    ASSERT_TRUE(value.is_array());
    EXPECT_EQ(*(*value.array())[1]["kind"].string(), "attemptBegan");
    EXPECT_EQ(*(*value.array())[1]["attempt"].integer(), 1);
    EXPECT_TRUE((*value.array())[0]["attempt"].is_null());
}

TEST(Phases, TakeTheTimesOfTheNodes) {
    const Facts facts = trained();
    const auto attempts = bars_of(facts);
    ASSERT_EQ(attempts.size(), 1U);
    ASSERT_EQ(attempts[0].rows.size(), 3U);
    const NodeRow& first = attempts[0].rows[0];
    // Only the first node makes the outputs.
    ASSERT_EQ(first.bars.size(), 4U);
    ASSERT_EQ(attempts[0].rows[1].bars.size(), 3U);
    EXPECT_EQ(first.bars[1].begin, at(2));
    EXPECT_EQ(first.bars[1].ready, at(4));
    EXPECT_EQ(first.bars[1].end, at(40));
    // A step that was started beside the ranks is not theirs.
    EXPECT_EQ(first.bars[3].begin, at(43.5));
    EXPECT_EQ(first.bars[3].end, at(99));
    EXPECT_EQ(attempts[0].rows[1].bars[0].end, at(12));
    // A node that has said nothing has the times of the attempt.
    EXPECT_EQ(attempts[0].rows[2].bars[0].begin, at(1));
    EXPECT_EQ(attempts[0].rows[2].bars[0].end, at(41));
}

TEST(Phases, OfARunningJobEndNow) {
    Facts facts = trained();
    facts.job.ended = false;
    facts.job.end.reset();
    facts.node_steps.clear();
    facts.attempts[0].end.reset();
    facts.attempts[0].phases.back().end.reset();
    const auto attempts = bars_of(facts);
    EXPECT_TRUE(attempts[0].open);
    EXPECT_TRUE(attempts[0].rows[2].bars.back().open);
    EXPECT_EQ(attempts[0].rows[2].bars.back().end, facts.now);
    // The batch script was killed, and another attempt followed.
    facts.attempts.push_back(trained().attempts[0]);
    facts.attempts[1].number = 2;
    EXPECT_FALSE(bars_of(facts)[0].open);
    EXPECT_EQ(bars_of(facts)[0].end, at(43));
}

TEST(Phases, SurviveTimesThatCannotBe) {
    Facts facts = trained();
    facts.attempts[0].end = at(-1000);
    facts.attempts[0].phases[1].start = at(1e9);
    facts.node_steps[1].end = at(-5e9);
    for (const AttemptBars& attempt : bars_of(facts)) {
        for (const NodeRow& row : attempt.rows) {
            for (const Bar& bar : row.bars)
                EXPECT_LE(bar.begin, bar.end);
        }
    }
}

TEST(Durations, AreForPeople) {
    EXPECT_EQ(duration_text(0.0404), "40 ms");
    EXPECT_EQ(duration_text(3.21), "3.2 s");
    EXPECT_EQ(duration_text(200), "3 min 20 s");
    EXPECT_EQ(duration_text(7500), "2 h 05 min");
    EXPECT_EQ(duration_text(273600), "3 d 4 h");
    EXPECT_EQ(duration_text(-1), "0 s");
}

}  // namespace
}  // namespace batchai::status
