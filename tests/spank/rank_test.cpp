// SPDX-License-Identifier: GPL-2.0-or-later
// What the tasks of a step get as ranks: numbers, a place to meet, and an interface for NCCL.
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/nccl_interface.hpp"
#include "node/node_name.hpp"
#include "tests/spank/step.hpp"

namespace {

using fake::Ended;
using fake::slurm;
using fake::Step;
using testing::HasSubstr;

constexpr const char* show_rank_variables =
    "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT";
constexpr const char* show_further_variables =
    "echo $GROUP_RANK/$GROUP_WORLD_SIZE ${TORCHELASTIC_RUN_ID-none} "
    "$TORCHELASTIC_RESTART_COUNT/$TORCHELASTIC_MAX_RESTARTS ${JAX_COORDINATOR_ADDRESS-none} "
    "${AZ_BATCHAI_TASK_INDEX-none} ${AZ_BATCHAI_PYTORCH_INIT_METHOD-none} "
    "${TORCHELASTIC_USE_AGENT_STORE-none}";

class RankOfAStep : public Step {
  protected:
    RankOfAStep() {
        slurm().tasks = 8;
        slurm().local_tasks = 2;
        slurm().task = 5;
        slurm().local_task = 1;
        submit();
    }
};

TEST_F(RankOfAStep, KnowsItsNumberAndWhereBatchaiRunLetsTheRanksMeet) {
    slurm().environment[BATCHAI_MASTER_VARIABLE] = "10.0.0.4 4321";
    EXPECT_EQ(run(std::string(show_rank_variables) + "; echo $BATCHAI_MASTER").output,
              "5/8 1/2 10.0.0.4 4321\n\n");
}

TEST_F(RankOfAStep, KeepsWhatTheUserOrTheJobFileHasSet) {
    slurm().environment[BATCHAI_MASTER_VARIABLE] = "10.0.0.4 4321";
    slurm().environment["MASTER_PORT"] = "29500";
    slurm().environment["LOCAL_RANK"] = "";
    plan.environment.push_back({"WORLD_SIZE", "16"});
    submit();
    EXPECT_EQ(run(show_rank_variables).output, "5/16 /2 10.0.0.4 29500\n");
}

TEST_F(RankOfAStep, DoesNotTakeAnOuterStepsNumberForItsOwn) {
    slurm().environment[BATCHAI_MASTER_VARIABLE] = "10.0.0.4 4321";
    slurm().environment[BATCHAI_RANK_VARIABLES_VARIABLE] = "RANK=0,WORLD_SIZE=1,MASTER_ADDR=h1";
    slurm().environment["RANK"] = "0";
    slurm().environment["WORLD_SIZE"] = "4";  // set by hand since
    EXPECT_EQ(run(show_rank_variables).output, "5/4 1/2 10.0.0.4 4321\n");
}

TEST_F(RankOfAStep, IsNoneWhereBatchaiRunSaysSo) {
    slurm().environment[BATCHAI_RANK_VARIABLES_VARIABLE] = "none";
    EXPECT_EQ(run(std::string(show_rank_variables) + "; echo \"<$BATCHAI_RANK_VARIABLES>\"").output,
              "/ /\n<>\n");
    EXPECT_EQ(run(show_further_variables).output, "/ none / none none none none\n");
}

// torch calls a node a group.
TEST_F(RankOfAStep, HasWhatTorchrunWouldSetAndWhatJaxAndBatchAiCallIt) {
    slurm().environment[BATCHAI_MASTER_VARIABLE] = "10.0.0.4 4321";
    slurm().step_id = 3;
    slurm().nodes = 4;
    slurm().node = 2;
    EXPECT_EQ(run(show_further_variables).output,
              "2/4 4711.3 0/0 10.0.0.4:4321 5 tcp://10.0.0.4:4321 none\n");
    slurm().environment[BATCHAI_SLURM_JOB_VARIABLE] = "4711 2";
    slurm().environment[BATCHAI_MASTER_VARIABLE] = "fd00::4 4321";
    EXPECT_EQ(run(show_further_variables).output,
              "2/4 4711.3 2/0 [fd00::4]:4321 5 tcp://[fd00::4]:4321 none\n");
    slurm().environment["SLURM_RESTART_COUNT"] = "7";  // of a job around this one
    for (const char* odd : {"4711 2;id", "4711", "", "4711 2 1 1", "4711 22222222222"}) {
        slurm().environment[BATCHAI_SLURM_JOB_VARIABLE] = odd;
        EXPECT_EQ(run("echo $TORCHELASTIC_RESTART_COUNT").output, "0\n") << odd;
    }
}

TEST_F(RankOfAStep, KeepsTheUsersFurtherVariables) {
    slurm().environment[BATCHAI_MASTER_VARIABLE] = "10.0.0.4 4321";
    slurm().environment["TORCHELASTIC_RUN_ID"] = "mine";
    slurm().environment["JAX_COORDINATOR_ADDRESS"] = "h9:1";
    plan.environment.push_back({"AZ_BATCHAI_TASK_INDEX", "7"});
    plan.environment.push_back({"AZ_BATCHAI_PYTORCH_INIT_METHOD", "file:///nfs/meet"});
    submit();
    EXPECT_EQ(run(show_further_variables).output, "0/1 mine 0/0 h9:1 7 file:///nfs/meet none\n");
}

// With a part of the world from the user, the run id would still make Lightning read the whole of
// it.
TEST_F(RankOfAStep, HasNoRunIdWithAWorldThatIsPartlyTheUsers) {
    for (const char* name :
         {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
        slurm().environment[BATCHAI_MASTER_VARIABLE] = "10.0.0.4 4321";
        slurm().environment[name] = "1";
        // It is what the plugin has given to the task of an outer step.
        slurm().environment["TORCHELASTIC_RUN_ID"] = "4711.0";
        slurm().environment[BATCHAI_RANK_VARIABLES_VARIABLE] = "TORCHELASTIC_RUN_ID=4711.0";
        EXPECT_EQ(run(show_further_variables).output,
                  "0/1 none 0/0 10.0.0.4:4321 5 tcp://10.0.0.4:4321 none\n")
            << name;
        slurm().environment.erase(name);
    }
}

TEST_F(RankOfAStep, HasNoRunIdWhereItIsAlone) {
    slurm().environment[BATCHAI_MASTER_VARIABLE] = "10.0.0.4 4321";
    slurm().tasks = 1;
    slurm().task = 0;
    EXPECT_EQ(run(show_further_variables).output,
              "0/1 none 0/0 10.0.0.4:4321 0 tcp://10.0.0.4:4321 none\n");
}

TEST_F(RankOfAStep, RecognizesTheLongestVariablesOfAnOuterStep) {
    const std::string address = std::string(BATCHAI_MASTER_LIMIT - 8, ':');
    slurm().environment["SLURM_GPUS_ON_NODE"] = "2";
    slurm().environment["CUDA_VISIBLE_DEVICES"] = "0";
    for (unsigned int* number : {&slurm().job_id, &slurm().step_id, &slurm().tasks, &slurm().nodes,
                                 &slurm().node, &slurm().task, &slurm().local_tasks})
        *number = 4000000000;
    slurm().environment[BATCHAI_SLURM_JOB_VARIABLE] = "4000000000 1234567890 1234567890";
    slurm().environment[BATCHAI_MASTER_VARIABLE] = address + " 65535";
    const std::string names =
        "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT "
        "GROUP_RANK GROUP_WORLD_SIZE TORCHELASTIC_RUN_ID "
        "TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS "
        "JAX_COORDINATOR_ADDRESS JAX_LOCAL_DEVICE_IDS AZ_BATCHAI_TASK_INDEX "
        "AZ_BATCHAI_PYTORCH_INIT_METHOD " BATCHAI_RANK_VARIABLES_VARIABLE;
    std::istringstream outer(run("printenv " + names).output);
    std::istringstream words(names);
    std::string name;
    std::string value;
    while (words >> name && std::getline(outer, value))
        slurm().environment[name] = value;
    EXPECT_EQ(name, BATCHAI_RANK_VARIABLES_VARIABLE) << "a variable is missing";
    slurm().task = 5;
    slurm().step_id = 6;
    slurm().environment[BATCHAI_MASTER_VARIABLE] = "10.0.0.4 4321";
    EXPECT_EQ(run("echo $RANK $TORCHELASTIC_RUN_ID $JAX_COORDINATOR_ADDRESS").output,
              "5 4000000000.6 10.0.0.4:4321\n");
}

// JAX would take Slurm's local number of the task for that of its GPU, which is 0 where the task
// sees only one.
TEST_F(RankOfAStep, TellsJaxTheNumberOfTheOnlyGpuThatItSees) {
    constexpr const char* show = "echo ${JAX_LOCAL_DEVICE_IDS-none}";
    EXPECT_EQ(run(show).output, "none\n");
    slurm().environment["CUDA_VISIBLE_DEVICES"] = "2,3";
    EXPECT_EQ(run(show).output, "none\n");
    slurm().environment["CUDA_VISIBLE_DEVICES"] = "MIG-7f0d";
    EXPECT_EQ(run(show).output, "0\n");
    slurm().environment["JAX_LOCAL_DEVICE_IDS"] = "0,1";
    EXPECT_EQ(run(show).output, "0,1\n");
}

// A rank with GPUs, on a host that has an interface for NCCL. The host decides which one that is.
class RankWithGpus : public RankOfAStep {
  protected:
    RankWithGpus() {
        slurm().local_task = 0;
        // The step ends with the only task that runs here, so its log is complete.
        slurm().local_tasks = 1;
        slurm().environment["SLURM_GPUS_ON_NODE"] = "2";
        slurm().environment["HOME"] = scratch.path().string();
        slurm().environment[BATCHAI_MASTER_VARIABLE] = "10.0.0.4 4321";
        const auto chosen = batchai::node::nccl_interface_of_this_node("10.0.0.4", {});
        if (chosen) interface = chosen->name;
    }
    void SetUp() override {
        if (interface.empty()) GTEST_SKIP() << "no interface but loopback is up here";
    }

    std::string show_nccl() {
        return run("echo \"${NCCL_SOCKET_IFNAME-none} ${BATCHAI_NCCL_INTERFACE-none}\"").output;
    }
    [[nodiscard]] std::string trace() const {
        return scratch.read("job/node/" + batchai::node::node_name() + ".log");
    }

    std::string interface;
};

TEST_F(RankWithGpus, TellsNcclTheInterfaceAndTheLogWhy) {
    EXPECT_EQ(show_nccl(), '=' + interface + " none\n");
    EXPECT_THAT(trace(), HasSubstr(" NCCL_SOCKET_IFNAME is \"=" + interface + "\": NCCL uses " +
                                   interface + " ("));
}

TEST_F(RankWithGpus, TellsTheLogOnlyOncePerNode) {
    slurm().local_task = 1;
    EXPECT_EQ(show_nccl(), '=' + interface + " none\n");
    EXPECT_THAT(trace(), testing::Not(HasSubstr("NCCL")));
}

TEST_F(RankWithGpus, KeepsTheInterfaceOfTheUserTheJobFileOrNcclsOwnFile) {
    slurm().environment["NCCL_SOCKET_IFNAME"] = "mine";
    EXPECT_EQ(show_nccl(), "mine none\n");
    slurm().environment["NCCL_SOCKET_IFNAME"] = "";
    EXPECT_EQ(show_nccl(), " none\n") << "set to nothing is set as well";
    slurm().environment.erase("NCCL_SOCKET_IFNAME");
    scratch.file(".nccl.conf", "NCCL_SOCKET_IFNAME=files\n");
    EXPECT_EQ(show_nccl(), "none none\n");
    // This file takes the place of the one in the home.
    slurm().environment["NCCL_CONF_FILE"] = scratch.file("other.conf", "NCCL_DEBUG=WARN\n");
    EXPECT_EQ(show_nccl(), '=' + interface + " none\n");
    plan.environment.push_back({"NCCL_SOCKET_IFNAME", "^docker0"});
    submit();
    EXPECT_EQ(show_nccl(), "^docker0 none\n");
}

TEST_F(RankWithGpus, DoesNotTakeAnOuterStepsInterfaceForTheUsers) {
    slurm().environment["NCCL_SOCKET_IFNAME"] = "=outer";
    slurm().environment[BATCHAI_RANK_VARIABLES_VARIABLE] = "RANK=0,NCCL_SOCKET_IFNAME==outer";
    EXPECT_EQ(show_nccl(), '=' + interface + " none\n");
}

TEST_F(RankWithGpus, TellsNcclNothingWithoutGpusOrWhereItIsNoRank) {
    slurm().environment[BATCHAI_RANK_VARIABLES_VARIABLE] = "none";
    slurm().environment.erase(BATCHAI_MASTER_VARIABLE);
    EXPECT_EQ(show_nccl(), "none none\n");
    slurm().environment.erase(BATCHAI_RANK_VARIABLES_VARIABLE);
    EXPECT_EQ(show_nccl(), '=' + interface + " none\n") << "as in a step of srun";
    slurm().environment["SLURM_GPUS_ON_NODE"] = "0";
    EXPECT_EQ(show_nccl(), "none none\n");
}

TEST_F(RankOfAStep, GetsAPortThatIsHeldForItWithoutBatchaiRun) {
    const Ended ended =
        run(std::string(show_rank_variables) +
            "; bind() { perl -MIO::Socket::INET -e 'exit !IO::Socket::INET->new(LocalPort => "
            "$ENV{MASTER_PORT}, Listen => 1, ReuseAddr => shift)' $1; }"
            "; bind 0 && echo anybody can have it; bind 1 && echo a rank can have it");
    EXPECT_THAT(ended.output,
                testing::MatchesRegex("5/8 1/2 [^ ]+ [1-9][0-9]+\na rank can have it\n"))
        << ended.errors;
}

TEST_F(RankOfAStep, LearnsThePortFromTheFirstNodeOfTheStep) {
    slurm().nodes = 2;
    slurm().node = 1;
    slurm().step_id = 3;
    slurm().environment[BATCHAI_SLURM_JOB_VARIABLE] = "4711 2";
    scratch.directory("job/node");
    scratch.file("job/node/master-4711.2.3", "10.0.0.9 5555\n");
    EXPECT_EQ(run(show_rank_variables).output, "5/8 1/2 10.0.0.9 5555\n");
}

}  // namespace
