// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/srun/srun_arguments.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchai::run {

using testing::Contains;
using testing::Not;

namespace {

plan::Plan two_nodes() {
    plan::Plan plan;
    plan.allocation.nodes = 2;
    plan.allocation.processes = 4;
    plan.allocation.processes_per_node = 2;
    return plan;
}

plan::Step ranks() {
    return {plan::StepKind::ranks, "exec python 'a b.py'; $(evil)", 4, 2, true, "o", "e"};
}

}  // namespace

TEST(SrunArguments, SayEverySizeAndKeepTheCommandOneWord) {
    const auto arguments = srun_arguments(two_nodes(), ranks(), "pmix", {"/o", "/e"});
    EXPECT_THAT(arguments, Contains("--nodes=2"));
    EXPECT_THAT(arguments, Contains("--ntasks=4"));
    EXPECT_THAT(arguments, Contains("--ntasks-per-node=2"));
    EXPECT_THAT(arguments, Contains("--mpi=pmix"));
    EXPECT_THAT(arguments, Contains("--kill-on-bad-exit=1"));
    EXPECT_EQ(arguments.back(), "exec python 'a b.py'; $(evil)");
}

// Breaks when the name of the user's directory is read by srun, or when the ranks of such a job
// start in another directory than those of any other.
TEST(SrunArguments, NameADirectoryThatSrunWouldReadAsTheStepsOwn) {
    plan::Plan plan = two_nodes();
    const StepFiles files{"/100%used/o-%t", "/100%used/e-%t"};
    auto arguments = srun_arguments(plan, ranks(), "pmix", files);
    for (const char* option : {"--chdir=/100%used", "--output=o-%t", "--error=e-%t"})
        EXPECT_THAT(arguments, Contains(option));
    const std::string here = std::filesystem::current_path().string();
    EXPECT_THAT(srun_environment(plan, files, {"A=1"}), Contains("BATCHAI_STEP_DIRECTORY=" + here));
    plan.snapshot.emplace().working_directory = "/snapshot";
    EXPECT_THAT(srun_environment(plan, files, {}), Contains("BATCHAI_STEP_DIRECTORY=/snapshot"));
    arguments = srun_arguments(plan, ranks(), "pmix", files);
    EXPECT_LT(std::find(arguments.begin(), arguments.end(), "--chdir=/snapshot"),
              std::find(arguments.begin(), arguments.end(), "--chdir=/100%used"));
    EXPECT_THAT(srun_environment(plan, {"/plain/o-%t", "/plain/e-%t"}, {"A=1"}),
                testing::AllOf(Contains("A=1"),
                               testing::Each(Not(testing::StartsWith("BATCHAI_STEP_DIRECTORY")))));
}

TEST(SrunArguments, GiveTheMasterStepOneNodeAndRoomBesideIt) {
    plan::Step step{plan::StepKind::master, "mpirun x", 1, 1, false, "o", "e"};
    const auto arguments = srun_arguments(two_nodes(), step, "pmix", {"/o", "/e"});
    EXPECT_THAT(arguments, Contains("--nodes=1"));
    EXPECT_THAT(arguments, Contains("--overlap"));
    EXPECT_THAT(arguments, Contains("--mpi=none"));
}

// Slurm 22.05 does not create a step beside the ranks if that asks for memory of its own.
TEST(SrunArguments, LetTheStepsBesideTheRanksShareTheirNodes) {
    plan::Step servers{plan::StepKind::parameter_servers, "serve", 1, 1, false, "o", "e"};
    const auto of_servers = srun_arguments(two_nodes(), servers, "none", {"/o", "/e"}, {"n1"});
    const auto of_ports = phase_arguments(
        two_nodes(), {.layout = ranks(), .shares_nodes = true, .command = {"/bin/hold", "-x"}});
    for (const auto& arguments : {of_servers, of_ports}) {
        EXPECT_THAT(arguments, Contains("--overlap"));
        EXPECT_THAT(arguments, Contains("--mem=0"));
        EXPECT_THAT(arguments, Contains("--gres=none"));
        EXPECT_THAT(arguments, Contains("--mpi=none"));
    }
    EXPECT_THAT(of_servers, Contains("--nodelist=n1"));
    EXPECT_THAT(of_ports, Contains("--ntasks=4"));
    EXPECT_THAT(of_ports, Contains("--ntasks-per-node=2"));
    EXPECT_EQ(of_ports.back(), "-x");
    EXPECT_THAT(srun_arguments(two_nodes(), ranks(), "pmix", {"/o", "/e"}),
                Not(Contains("--mem=0")));
}

// Breaks when Slurm ends ranks that are to go on without a lost one.
TEST(SrunArguments, LetTheOtherTasksGoOnIfTheJobWantsThat) {
    const auto as_usual = srun_arguments(two_nodes(), ranks(), "pmix", {"/o", "/e"});
    EXPECT_THAT(as_usual, Contains("--kill-on-bad-exit=1"));
    EXPECT_THAT(as_usual, Not(Contains("--no-kill")));
    const auto arguments =
        srun_arguments(two_nodes(), ranks(), "pmi2", {"/o", "/e"}, {}, AfterLoss::goes_on);
    EXPECT_THAT(arguments, Contains("--kill-on-bad-exit=0"));
    EXPECT_THAT(arguments, Contains("--no-kill"));
    EXPECT_THAT(arguments, Contains("--mpi=pmi2"));
}

TEST(SrunArguments, RefuseToRunWhereThePluginIsNotActive) {
    const auto arguments = srun_arguments(two_nodes(), ranks(), "pmix", {"/o", "/e"});
    const auto guard = std::find_if(arguments.begin(), arguments.end(), [](const auto& word) {
        return word.find("BATCHAI_SANDBOX") != std::string::npos;
    });
    ASSERT_NE(guard, arguments.end());
    const auto bare = base::run({"env", "-u", "BATCHAI_SANDBOX", "BATCHAI_PLAN_DIGEST=d", "bash",
                                 "-c", *guard, "step", "echo ran"});
    EXPECT_EQ(bare->exit_code, 97);
    EXPECT_EQ(bare->standard_output, "");
    const auto inside = base::run({"env", "BATCHAI_SANDBOX=d", "BATCHAI_PLAN_DIGEST=d", "bash",
                                   "-c", *guard, "step", "echo \"ran $((1+1))\"; exit 4"});
    EXPECT_EQ(inside->exit_code, 4);
    EXPECT_EQ(inside->standard_output, "ran 2\n");
}

TEST(SrunArguments, PutTheEntryPointBeforeTheShellThatTheImageHas) {
    plan::Plan plan = two_nodes();
    plan.container.emplace().entrypoint = {"/bin/echo", "entered by"};
    const auto arguments = srun_arguments(plan, ranks(), "pmix", {"/o", "/e"});
    const auto shell = std::find(arguments.begin(), arguments.end(), "/bin/sh");
    ASSERT_NE(shell, arguments.end()) << "an image need not have bash";
    base::RunOptions options;
    options.environment = {"BATCHAI_SANDBOX=d", "BATCHAI_PLAN_DIGEST=d"};
    const auto entered = base::run({shell, arguments.end()}, options);
    ASSERT_TRUE(entered);
    EXPECT_EQ(entered->standard_output, "entered by /bin/bash -c " + ranks().command + "\n");
    options.environment = {"BATCHAI_PLAN_DIGEST=d"};
    EXPECT_EQ(base::run({shell, arguments.end()}, options)->exit_code, 97);
}

TEST(SrunEnvironment, DropsWhatSrunTakesForOptionsAndLetsAdditionsWin) {
    // Each of these has stopped a job that was submitted from within another one.
    const std::vector<std::string> left_out{
        "SLURM_NTASKS",        "SLURM_TRES_PER_TASK", "SLURM_MEM_PER_CPU",   "SLURM_MEM_PER_GPU",
        "SLURM_MEM_PER_NODE",  "SLURM_GPUS",          "SLURM_GPUS_PER_NODE", "SLURM_GRES",
        "SLURM_STEP_GRES",     "SLURM_RESV_PORTS",    "SLURM_TASK_PROLOG",   "SLURM_HET_SIZE",
        "SLURM_HINT",          "SLURM_CLUSTERS",      "SLURM_REMOTE_CWD",    "SLURM_ARRAY_TASK_ID",
        "SLURM_RESTART_COUNT", "BATCHAI_SANDBOX"};
    const std::vector<std::string> kept{
        "SLURM_JOB_ID",       "SLURM_JOB_NODELIST", "SLURM_JOB_GPUS",       "SLURM_GPUS_PER_TASK",
        "SLURM_GPUS_ON_NODE", "SLURM_CPUS_ON_NODE", "SLURM_MEM_BIND",       "SLURM_GPU_BIND",
        "SLURM_SPANK_OTHER",  "SLURM_SUBMIT_DIR",   "SLURM_WORKING_CLUSTER"};
    for (const auto& names : {left_out, kept}) {
        for (const std::string& name : names)
            setenv(name.c_str(), "7", 1);
    }
    setenv("AZ_BATCH_HOST_LIST", "old", 1);
    const auto environment = srun_environment({"AZ_BATCH_HOST_LIST=new", "SLURM_RESTART_COUNT=2"});
    for (const std::string& name : left_out) {
        EXPECT_THAT(environment, Not(Contains(name + "=7")));
        unsetenv(name.c_str());
    }
    for (const std::string& name : kept) {
        EXPECT_THAT(environment, Contains(name + "=7"));
        unsetenv(name.c_str());
    }
    EXPECT_THAT(environment, Contains("SLURM_RESTART_COUNT=2"));
    EXPECT_THAT(environment, Contains("AZ_BATCH_HOST_LIST=new"));
    EXPECT_THAT(environment, Not(Contains("AZ_BATCH_HOST_LIST=old")));
    unsetenv("AZ_BATCH_HOST_LIST");
}

}  // namespace batchai::run
