// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/elastic.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planned.hpp"

namespace batchai::plan {

namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

std::string with(std::string_view name, std::string_view value) {
    return small_job(
        fmt::format(R"(, "environmentVariables": [{{"name": "{}", "value": "{}"}}])", name, value));
}

}  // namespace

TEST(ElasticJob, IsOneThatSaysItsLeastNumberOfNodes) {
    EXPECT_EQ(*elastic_of({{"BATCHAI_ELASTIC_RESTARTS", "5"}}, 4), std::nullopt);
    EXPECT_EQ(*elastic_of({{"BATCHAI_ELASTIC_MIN_NODES", "2"}}, 4), (Elastic{2, 3}));
    EXPECT_EQ(
        *elastic_of({{"BATCHAI_ELASTIC_MIN_NODES", "4"}, {"BATCHAI_ELASTIC_RESTARTS", "0"}}, 4),
        (Elastic{4, 0}));
    const auto leaving = [](const char* value) {
        return elastic_of(
            {{"BATCHAI_ELASTIC_MIN_NODES", "2"}, {"BATCHAI_ELASTIC_LEAVE_DRAINED", value}}, 4);
    };
    EXPECT_EQ(*leaving("1"), (Elastic{2, 3, true}));
    EXPECT_EQ(*leaving("0"), (Elastic{2, 3, false}));
    EXPECT_EQ(leaving("yes").error().where, "BATCHAI_ELASTIC_LEAVE_DRAINED");
    const auto keeping = [](const char* value) {
        return elastic_of(
            {{"BATCHAI_ELASTIC_MIN_NODES", "2"}, {"BATCHAI_ELASTIC_KEEP_PROCESSES", value}}, 4);
    };
    EXPECT_EQ(*keeping("1"), (Elastic{2, 3, false, true}));
    EXPECT_EQ(*keeping("0"), (Elastic{2, 3}));
    EXPECT_EQ(keeping("2").error().where, "BATCHAI_ELASTIC_KEEP_PROCESSES");
}

TEST(ElasticJob, SurvivesTheLossOfANode) {
    const Made made = planned(with("BATCHAI_ELASTIC_MIN_NODES", "1"));
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_THAT(sbatch_options(*made.plan), Contains("--no-kill"));
    EXPECT_THAT(sbatch_options(*planned(small_job()).plan), Not(Contains("--no-kill")));
}

TEST(ElasticJob, IsRefusedWithBoundsThatMakeNoSense) {
    for (const char* value : {"0", "3", "two", "", "1 "}) {
        const Made made = planned(with("BATCHAI_ELASTIC_MIN_NODES", value));
        EXPECT_FALSE(made.plan) << value;
        EXPECT_THAT(faults(made), HasSubstr("E113 BATCHAI_ELASTIC_MIN_NODES is "));
        EXPECT_THAT(faults(made), HasSubstr("from 1 to 2"));
        EXPECT_GT(made.diagnostics.front().position.line, 0);
    }
}

}  // namespace batchai::plan
