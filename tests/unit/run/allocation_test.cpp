// SPDX-License-Identifier: GPL-2.0-or-later
#include <map>

#include <gtest/gtest.h>

#include "run/context.hpp"

namespace batchai::run {

namespace {

Lookup lookup(std::map<std::string, std::string> variables) {
    return [variables = std::move(variables)](const std::string& name) {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
}

plan::Plan plan_for(int nodes) {
    plan::Plan plan;
    plan.allocation.nodes = nodes;
    return plan;
}

}  // namespace

TEST(Granted, ReadsNodesAndRestarts) {
    const auto got = granted(lookup({{"SLURM_JOB_ID", "12"},
                                     {"SLURM_JOB_NODELIST", "n[1-3]"},
                                     {"SLURM_RESTART_COUNT", "2"}}),
                             plan_for(3));
    ASSERT_TRUE(got);
    EXPECT_EQ(got->nodes, (std::vector<std::string>{"n1", "n2", "n3"}));
    EXPECT_EQ(got->restart, 2);
}

TEST(Granted, RefusesOutsideAnAllocation) {
    const auto got = granted(lookup({}), plan_for(1));
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().exit_code, base::ExitCode::usage);
    EXPECT_FALSE(got.error().hint.empty());
}

TEST(Granted, RefusesAnotherNodeCountWithBothValues) {
    const auto got =
        granted(lookup({{"SLURM_JOB_ID", "12"}, {"SLURM_JOB_NODELIST", "n[1-2]"}}), plan_for(4));
    ASSERT_FALSE(got);
    EXPECT_NE(got.error().what.find('2'), std::string::npos);
    EXPECT_NE(got.error().what.find('4'), std::string::npos);
}

}  // namespace batchai::run
