// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/slurm_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/elastic.hpp"
#include "planned.hpp"

namespace batchai::plan {

namespace {

using testing::Contains;
using testing::Not;

Plan large_plan() {
    Plan plan;
    plan.tool_type = "mpi";
    Allocation& allocation = plan.allocation;
    allocation.nodes = 2;
    allocation.processes = 8;
    allocation.processes_per_node = 4;
    allocation.cpus_per_process = 3;
    allocation.nice = 1000;
    allocation.time_limit = std::chrono::minutes(90);
    allocation.options = {
        {"exclusive", "", Origin::site},          {"partition", "gpu", Origin::vm_size},
        {"constraint", "k80", Origin::vm_size},   {"gres", "gpu:4", Origin::vm_size},
        {"reservation", "ours", Origin::vm_size}, {"contiguous", "", Origin::vm_size}};
    return plan;
}

std::vector<std::string> at_door(const Plan& plan, Door door, const GivenOptions& given = {}) {
    const auto options = options_at_door(plan, door, given, "job.json");
    if (!options) return {"error: " + options.error().text()};
    std::vector<std::string> out;
    for (const SlurmOption& option : *options)
        out.push_back(argument_of(option));
    return out;
}

}  // namespace

TEST(SlurmOptions, AreTheSameForSbatchAndAtItsDoor) {
    const Plan plan = large_plan();
    const auto arguments = sbatch_options(plan);
    for (const SlurmOption& option : allocation_options(plan))
        EXPECT_THAT(arguments, Contains(argument_of(option)));
    const auto set = at_door(plan, Door::sbatch);
    EXPECT_EQ(set.size(), allocation_options(plan).size());
    for (const char* option :
         {"--nodes=2", "--ntasks=8", "--ntasks-per-node=4", "--cpus-per-task=3",
          "--exclusive=exclusive", "--partition=gpu", "--constraint=k80", "--gres=gpu:4",
          "--nice=1000", "--time=01:30:00", "--requeue", "--reservation=ours", "--contiguous=set"})
        EXPECT_THAT(set, Contains(option));
}

TEST(SlurmOptions, LeaveBatchScriptsToSbatchAndTheWiringToSrun) {
    const Plan plan = large_plan();
    for (const Door door : {Door::srun, Door::salloc})
        EXPECT_THAT(at_door(plan, door), Not(Contains("--requeue")));
    EXPECT_THAT(at_door(plan, Door::srun), Contains("--mpi=pmix"));
    EXPECT_THAT(at_door(plan, Door::salloc), Not(Contains("--mpi=pmix")));
}

TEST(SlurmOptions, OfTheSiteReplaceOurs) {
    Plan plan = large_plan();
    plan.allocation.options = {{"nice", "", Origin::vm_size}, {"no-requeue", "", Origin::vm_size}};
    const auto set = at_door(plan, Door::salloc);
    EXPECT_THAT(set, Contains("--nice=100"));
    EXPECT_THAT(set, Not(Contains("--nice=1000")));
    const auto arguments = sbatch_options(plan);
    EXPECT_THAT(arguments, Contains("--no-requeue"));
    EXPECT_THAT(arguments, Not(Contains("--requeue")));
}

TEST(SlurmOptions, OfTheUserWinOverTheSite) {
    const Plan plan = large_plan();
    const auto set = at_door(plan, Door::sbatch,
                             {{"partition", "mine"},
                              {"gpus-per-node", "1"},
                              {"no-requeue", "x"},
                              {"oversubscribe", "x"}});
    for (const std::string& option : set) {
        for (const char* name : {"--partition", "--gres", "--requeue", "--exclusive"})
            EXPECT_FALSE(option.starts_with(name)) << option;
    }
    EXPECT_THAT(set, Contains("--constraint=k80"));
}

TEST(SlurmOptions, OfTheUserMustNotContradictTheFile) {
    const Plan plan = large_plan();
    struct Case {
        const char* name;
        const char* same;
        const char* other;
        const char* key;
    };
    for (const auto& [name, same, other, key] :
         {Case{"nodes", "2", "2-4", "nodeCount"}, Case{"ntasks", "8", "1", "processCount"},
          Case{"time", "01:30:00", "00:03:00", "constraints.maxWallClockTime"},
          Case{"nice", "1000", "0", "schedulingPriority"}}) {
        EXPECT_THAT(at_door(plan, Door::srun, {{name, same}}),
                    Not(Contains(testing::StartsWith("error"))));
        const auto refused = at_door(plan, Door::srun, {{name, other}});
        ASSERT_EQ(refused.size(), 1U);
        EXPECT_EQ(refused[0],
                  fmt::format("error: --{}={} contradicts job.json, which asks for {} ({})\nhint: "
                              "omit --{}, or use the same value in both",
                              name, other, same, key, name));
    }
}

// Breaks when Slurm cuts the spare nodes off because there are fewer tasks than nodes, or ends the
// job with the node that they are for.
TEST(SlurmOptions, AskForSpareNodesBesides) {
    Plan plan = large_plan();
    plan.allocation.spare_nodes = 2;
    plan.steps = {{.kind = StepKind::ranks}};
    for (const Door door : {Door::sbatch, Door::salloc})
        EXPECT_THAT(at_door(plan, door),
                    testing::IsSupersetOf(
                        {"--nodes=4", "--ntasks=16", "--ntasks-per-node=4", "--no-kill=set"}));
    EXPECT_THAT(at_door(plan, Door::srun), testing::IsSupersetOf({"--nodes=2", "--ntasks=8"}));
    EXPECT_THAT(at_door(plan, Door::srun), Not(Contains("--no-kill=set")));
    EXPECT_THAT(at_door(plan, Door::sbatch, {{"nodes", "2"}}).front(),
                testing::HasSubstr("asks for 4 (nodeCount and spareNodes)"));
    plan.steps = {{.kind = StepKind::master}};
    EXPECT_THAT(at_door(plan, Door::sbatch), Not(Contains("--no-kill=set")))
        << "the process of a custom toolkit is not started again";
}

TEST(SlurmOptions, SayTheTimeLimitAsSlurmDoes) {
    Plan plan = large_plan();
    for (const auto& [minutes, text] :
         {std::pair{1, "00:01:00"}, std::pair{1439, "23:59:00"}, std::pair{1440, "1-00:00:00"},
          std::pair{10085, "7-00:05:00"}}) {
        plan.allocation.time_limit = std::chrono::minutes(minutes);
        EXPECT_THAT(at_door(plan, Door::srun), Contains(std::string("--time=") + text));
    }
}

TEST(SlurmOptions, OfTheUserMayGiveAnotherPriorityThanNormal) {
    Plan plan = large_plan();
    for (const auto& [nice, fault] : {std::pair{normal_nice, false}, std::pair{0, true}}) {
        plan.allocation.nice = nice;
        const auto set = at_door(plan, Door::sbatch, {{"nice", "7"}});
        EXPECT_EQ(set.front().starts_with("error: --nice=7 contradicts"), fault) << set.front();
    }
}

TEST(SlurmOptions, OfTheSiteNeedNotAgreeWithTheUsers) {
    Plan plan = large_plan();
    plan.allocation.options = {{"nice", "7", Origin::vm_size}, {"time", "9", Origin::vm_size}};
    const auto set = at_door(plan, Door::sbatch, {{"nice", "3"}, {"time", "00:03:00"}});
    for (const std::string& option : set)
        EXPECT_FALSE(option.starts_with("--nice") || option.starts_with("--time")) << option;
}

TEST(SlurmOptions, KeepTheJobOfAnElasticPlanWhenANodeIsLost) {
    Plan plan = large_plan();
    plan.environment = {{elastic_nodes_variable, "1"}};
    EXPECT_THAT(sbatch_options(plan), Contains("--no-kill"));
    for (const Door door : {Door::sbatch, Door::srun, Door::salloc})
        EXPECT_THAT(at_door(plan, door), Contains("--no-kill=set"));
}

}  // namespace batchai::plan
