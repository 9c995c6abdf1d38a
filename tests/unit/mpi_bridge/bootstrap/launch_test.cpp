// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/launch.hpp"

#include <gtest/gtest.h>

#include "environment.hpp"

namespace {

using mpi_bridge::alone_among_idle_tasks;
using mpi_bridge::detect_launch;
using mpi_bridge::Launch;
using mpi_bridge_test::environment;

// What Slurm 22.05 sets for a task of a step of four; --mpi=none.
std::map<std::string, std::string> one_task_of_four() {
    return {{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"},        {"SLURM_PROCID", "3"},
            {"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_MPI_TYPE", "none"}};
}

// And for a batch script of a job of four tasks.
std::map<std::string, std::string> batch_script() {
    return {{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}};
}

void refuses_with(std::map<std::string, std::string> variables, const std::string& words) {
    const auto launch = detect_launch(environment(std::move(variables)));
    ASSERT_FALSE(launch);
    EXPECT_EQ(launch.error().status, MPIB_ERROR_BOOTSTRAP);
    EXPECT_NE(launch.error().text.find(words), std::string::npos) << launch.error().text;
}

TEST(Launch, IsAloneWithoutALauncher) {
    EXPECT_EQ(*detect_launch(environment({})), Launch::alone);
}

TEST(Launch, IsAloneInABatchScriptAndInTheShellOfSalloc) {
    EXPECT_EQ(*detect_launch(environment(batch_script())), Launch::alone);
    EXPECT_EQ(*detect_launch(environment({{"SLURM_NTASKS", "4"}})), Launch::alone);
}

TEST(Launch, IsAloneInAStepOfOneTaskWhateverTheJobHas) {
    auto variables = one_task_of_four();
    variables["SLURM_STEP_NUM_TASKS"] = "1";
    EXPECT_EQ(*detect_launch(environment(variables)), Launch::alone);
}

TEST(Launch, TellsAUserOfABatchScriptThatTasksStandIdle) {
    EXPECT_NE(alone_among_idle_tasks(environment(batch_script())).find("srun --mpi=pmix"),
              std::string::npos);
    auto on_purpose = batch_script();
    on_purpose["MPI_BRIDGE_ALONE"] = "1";
    EXPECT_EQ(alone_among_idle_tasks(environment(on_purpose)), "");
    auto task_of_one = one_task_of_four();
    task_of_one["SLURM_STEP_NUM_TASKS"] = "1";
    EXPECT_EQ(alone_among_idle_tasks(environment(task_of_one)), "");
    EXPECT_EQ(alone_among_idle_tasks(environment({{"SLURM_NTASKS", "1"}})), "");
    EXPECT_EQ(alone_among_idle_tasks(environment({})), "");
}

TEST(Launch, RefusesToBeOneOfManySingletonsAndNamesTheFix) {
    refuses_with(one_task_of_four(), "Slurm started 4 processes without PMIx or Slurm's PMI-2");
    refuses_with(one_task_of_four(), "srun --mpi=pmix");
    auto pmi2 = one_task_of_four();
    pmi2["SLURM_MPI_TYPE"] = "pmi2";
    pmi2["PMI_SIZE"] = "4";
    refuses_with(pmi2, "PMI_* variables did not reach this process");
    auto none = one_task_of_four();
    none["SLURM_MPI_TYPE"] = "cray_shasta";
    refuses_with(none, "instead of --mpi=cray_shasta, or with --mpi=pmi2");
    refuses_with({{"PMI_SIZE", "2"}}, "prterun");
    refuses_with({{"OMPI_COMM_WORLD_SIZE", "2"}}, "Open MPI");
}

TEST(Launch, SaysThatPmixVariablesWereLostOnTheWay) {
    auto scrubbed = one_task_of_four();
    scrubbed["SLURM_MPI_TYPE"] = "pmix_v4";
    refuses_with(scrubbed, "PMIX_* variables did not reach this process");
}

TEST(Launch, IsAloneWhereTheUserSaysSo) {
    auto variables = one_task_of_four();
    variables["MPI_BRIDGE_ALONE"] = "1";
    EXPECT_EQ(*detect_launch(environment(variables)), Launch::alone);
}

TEST(Launch, TakesPmixWhereItIs) {
    auto variables = one_task_of_four();
    variables["PMIX_RANK"] = "0";
    variables["PMIX_NAMESPACE"] = "slurm.pmix.7.0";
    EXPECT_EQ(*detect_launch(environment(variables)), Launch::pmix);
    variables["PMIX_NAMESPACE"] = "prterun-host-1";
    EXPECT_EQ(*detect_launch(environment(variables)), Launch::pmix);
}

std::map<std::string, std::string> one_task_with_pmi2() {
    auto variables = one_task_of_four();
    for (const auto& [name, value] : std::map<std::string, std::string>{{"SLURM_MPI_TYPE", "pmi2"},
                                                                        {"PMI_FD", "21"},
                                                                        {"PMI_RANK", "3"},
                                                                        {"PMI_SIZE", "4"},
                                                                        {"PMI_JOBID", "7.0"}})
        variables[name] = value;
    return variables;
}

TEST(Launch, TakesThePmi2OfItsStep) {
    using mpi_bridge::pmi2_socket;
    auto variables = one_task_with_pmi2();
    EXPECT_EQ(*detect_launch(environment(variables)), Launch::pmi2);
    EXPECT_EQ(pmi2_socket(environment(variables)), 21);
    variables["PMI_JOBID"] = "7.1";  // of the step around
    refuses_with(variables, "Slurm started 4 processes");
    for (const char* wrong : {"", "x", "-1", "2", "21 "}) {
        variables = one_task_with_pmi2();
        variables["PMI_FD"] = wrong;
        refuses_with(variables, "PMI_* variables");
    }
    // MPICH's launcher has a PMI of its own.
    refuses_with({{"PMI_FD", "21"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, "a PMI launcher");
}

TEST(Launch, LeavesThePmi2OfItsStepAloneWhereTheUserSaysSo) {
    auto variables = one_task_with_pmi2();
    variables["MPI_BRIDGE_ALONE"] = "1";
    EXPECT_EQ(*detect_launch(environment(variables)), Launch::alone);
}

TEST(Launch, RefusesThePmi2OfAHeterogeneousJob) {
    auto variables = one_task_with_pmi2();
    variables["SLURM_HET_SIZE"] = "2";
    refuses_with(variables, "heterogeneous job: start the step with --mpi=pmix");
}

TEST(Launch, PrefersPmixToPmi2) {
    auto variables = one_task_with_pmi2();
    variables["PMIX_RANK"] = "0";
    variables["PMIX_NAMESPACE"] = "slurm.pmix.7.0";
    EXPECT_EQ(*detect_launch(environment(variables)), Launch::pmix);
}

TEST(Launch, DoesNotTakeThePmixOfTheStepAround) {
    auto inner = one_task_of_four();
    inner["PMIX_RANK"] = "0";
    inner["PMIX_NAMESPACE"] = "slurm.pmix.7.1";
    refuses_with(inner, "srun --mpi=pmix");
    inner["SLURM_HET_SIZE"] = "2";  // whose components share a namespace
    EXPECT_EQ(*detect_launch(environment(inner)), Launch::pmix);
}

}  // namespace
