// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/phases/health.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attempt_of_fakes.hpp"

namespace batchai::run {

namespace {

using record::HealthCheck;
using record::HealthOutcome;
using record::HealthReport;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

NodeHealth node(std::string name, std::vector<HealthCheck> checks) {
    return {.node = std::move(name), .report = HealthReport{.checks = std::move(checks)}};
}
HealthCheck check(std::string name, HealthOutcome outcome, std::string line = {}) {
    return {.name = std::move(name), .outcome = outcome, .line = std::move(line)};
}

}  // namespace

TEST(HealthVerdict, NamesEachNodeThatFailsOnce) {
    const auto verdict = verdict_on(
        {node("n1", {check("a", HealthOutcome::ok)}),
         node("n2", {check("a", HealthOutcome::failed, "x"), check("b", HealthOutcome::failed)}),
         node("n3", {check("b", HealthOutcome::failed, "y")})});
    ASSERT_EQ(verdict.bad.size(), 2U);
    EXPECT_EQ(verdict.bad[0].node, "n2");
    EXPECT_EQ(verdict.bad[0].fault, "a: x");
    EXPECT_EQ(verdict.bad[1].node, "n3");
    EXPECT_EQ(verdict.checked, 3);
}

TEST(HealthVerdict, OnlyRemarksOnWarningsAndOnWhatIsUnknown) {
    const auto verdict = verdict_on({node("n1", {check("a", HealthOutcome::warning, "hot")}),
                                     node("n2", {check("a", HealthOutcome::unknown, "no ipmi")}),
                                     {.node = "n3", .report = HealthReport{.refused = "bob's"}},
                                     {.node = "n4", .report = std::nullopt}});
    EXPECT_THAT(verdict.bad, IsEmpty());
    EXPECT_THAT(
        verdict.remarks,
        ElementsAre("n1: health check a warns: hot", "n2: health check a could not be run: no ipmi",
                    "the health of n3 was not checked: bob's", "the health of n4 was not checked"));
    EXPECT_EQ(verdict.checked, 2);
}

TEST_F(PhasesTest, HealthIsCheckedOnTheBareNodesIfTheSiteHasChecks) {
    plan_.health = plan::HealthChecks{.directory = "/checks", .time_limit = 7};
    EXPECT_EQ(attempt(), 0);
    ASSERT_GE(steps_.requests.size(), 2U);
    const StepRequest& request = steps_.requests.front();
    for (const char* word : {"--ntasks-per-node=1", "health", "/checks", "7"})
        EXPECT_THAT(request.arguments, Contains(word));
    EXPECT_THAT(request.environment, Not(Contains(StartsWith("BATCHAI_PLAN="))));
    EXPECT_GT(request.deadline.count(), plan_.health->total_time_limit);
    EXPECT_THAT(phases(), ElementsAre("outputs 0", "health 0", "wire-up 0", "ranks 0"));
}

// The step of a site whose checks cannot be run must not end every job.
TEST_F(PhasesTest, ChecksThatCannotBeRunEndNoJob) {
    plan_.health = plan::HealthChecks{.directory = "/checks"};
    steps_.answer(1, "srun: error: n1: batchai-node: not found\n");
    EXPECT_EQ(attempt(), 0);
}

}  // namespace batchai::run
