// SPDX-License-Identifier: GPL-2.0-or-later
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planned.hpp"

namespace batchai::plan {

namespace {

using testing::HasSubstr;

Made watched(const std::string& watch, const std::string& more = {}) {
    return planned(small_job(R"(, "watch": )" + watch + more));
}

TEST(WatchOfAJob, IsPlanned) {
    const Made made = watched(R"({"silence": "PT10M", "action": "end", "progress":
        {"pattern": "^step", "within": "0:05:00", "first": "PT1H"}})");
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_EQ(
        made.plan->watch,
        (Watch{.silence = 600, .pattern = "^step", .within = 300, .first = 3600, .ends = true}));
    EXPECT_FALSE(planned(small_job()).plan->watch);
    // Otherwise Python would print many lines of progress at once, and none for a long time.
    EXPECT_EQ(value_of(*made.plan, "PYTHONUNBUFFERED"), "1");
    const Made own = watched(R"({"progress": {"pattern": "step", "within": "PT1M"}})",
                             R"(, "environmentVariables": [
        {"name": "PYTHONUNBUFFERED", "value": ""}])");
    ASSERT_TRUE(own.plan) << faults(own);
    EXPECT_EQ(value_of(*own.plan, "PYTHONUNBUFFERED"), "");
}

TEST(WatchOfAJob, RefusesWhatCannotBeWatched) {
    EXPECT_THAT(faults(watched("{}")), HasSubstr("E134 \"watch\" watches nothing"));
    EXPECT_THAT(faults(watched(R"({"idleGpu": "PT10M"})")), HasSubstr("E134 the job has no GPUs"));
    const std::string off = R"(, "environmentVariables": [
        {"name": "BATCHAI_USAGE_INTERVAL", "value": "0"}])";
    EXPECT_THAT(faults(watched(R"({"silence": "PT10M"})", off)),
                HasSubstr("BATCHAI_USAGE_INTERVAL=0 says that nobody notes it"));
    const std::string progress = R"({"progress": {"pattern": "step", "within": "PT1M"}})";
    EXPECT_TRUE(watched(progress, off).plan);
    EXPECT_TRUE(watched(R"({"idleGpu": "PT10M"})", R"(, "slurm": {"gpus-per-node": "1"})").plan);
}

// Breaks when a job waits for a retry that can never come.
TEST(WatchOfAJob, IsNeededForARetryAfterAHang) {
    const std::string slow = R"(, "retry": {"on": ["slow"], "excludeFailedNodes": true})";
    EXPECT_THAT(faults(watched(R"({"slowRank": {"percent": 150}, "action": "end"})",
                               R"(, "retry": {"on": ["slow"]})")),
                HasSubstr("E134 after \"slow\", the job would run on the same node again"));
    EXPECT_THAT(faults(watched(R"({"silence": "PT10M", "action": "end"})", slow)),
                HasSubstr("E134 \"slow\" is an end by \"watch.slowRank\""));
    EXPECT_TRUE(watched(R"({"slowRank": {"percent": 150}, "action": "end"})", slow).plan);
    const std::string retry = R"(, "retry": {"on": ["hang"]})";
    EXPECT_THAT(faults(planned(small_job(retry))), HasSubstr("E134 \"hang\" is an end by"));
    EXPECT_THAT(faults(watched(R"({"silence": "PT10M"})", retry)), HasSubstr("E134"));
    EXPECT_TRUE(watched(R"({"silence": "PT10M", "action": "end"})", retry).plan);
}

}  // namespace

}  // namespace batchai::plan
