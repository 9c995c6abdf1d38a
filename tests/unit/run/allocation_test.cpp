// SPDX-License-Identifier: GPL-2.0-or-later
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/context.hpp"

namespace batchai::run {

namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Lookup lookup(std::map<std::string, std::string> variables) {
    return [variables = std::move(variables)](const std::string& name) {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
}

}  // namespace

TEST(CheckSize, RefusesAnotherNodeCountWithBothValues) {
    plan::Plan plan;
    plan.allocation.nodes = 4;
    const auto got = check_size({.job_id = "12", .nodes = {"n1", "n2"}}, plan);
    ASSERT_FALSE(got);
    EXPECT_THAT(got.error().what, HasSubstr("has 2 nodes"));
    EXPECT_THAT(got.error().what, HasSubstr("asks for 4"));
    plan.allocation.nodes = 2;
    EXPECT_TRUE(check_size({.job_id = "12", .nodes = {"n1", "n2"}}, plan));
}

TEST(JobVariables, AreThoseOfThisJobAndNotOfOneAroundIt) {
    const Lookup inherited = lookup({{"SLURM_ARRAY_JOB_ID", "3"},
                                     {"SLURM_ARRAY_TASK_ID", "5"},
                                     {"SLURM_ARRAY_TASK_COUNT", "4"},
                                     {"SLURM_RESTART_COUNT", "7"}});
    EXPECT_THAT(job_variables({.job_id = "12"}, inherited), ElementsAre("BATCHAI_SLURM_JOB=12 0"));
    const auto task =
        job_variables({.job_id = "12", .restart = 2, .array_id = "9", .array_task = 1}, inherited);
    EXPECT_THAT(task, ElementsAre("BATCHAI_SLURM_JOB=12 2 1", "SLURM_RESTART_COUNT=2",
                                  "SLURM_ARRAY_JOB_ID=9", "SLURM_ARRAY_TASK_ID=1",
                                  "SLURM_ARRAY_TASK_COUNT=4"));
}

}  // namespace batchai::run
