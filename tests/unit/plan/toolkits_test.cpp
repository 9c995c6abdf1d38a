// SPDX-License-Identifier: GPL-2.0-or-later
// What each toolkit's settings make the job run, and into which files it prints.
#include <gtest/gtest.h>

#include "plan/tensorflow.hpp"
#include "planned.hpp"

namespace batchai::plan {

namespace {

Made with_toolkit(std::string_view key, std::string_view settings, int nodes = 2) {
    return planned(
        fmt::format(R"("nodeCount": {}, "stdOutErrPathPrefix": "/nfs/logs", "{}": {{{}}})", nodes,
                    key, settings));
}

Step step_of(const Made& made) {
    return made.plan && made.plan->steps.size() == 1 ? made.plan->steps.front() : Step{};
}

Step ranks(std::string command, int processes, int per_node, std::string_view files = "") {
    return {.kind = StepKind::ranks,
            .command = std::move(command),
            .processes = processes,
            .processes_per_node = per_node,
            .pmix = true,
            .stdout_name = fmt::format("stdout{}.txt", files),
            .stderr_name = fmt::format("stderr{}.txt", files)};
}

// Ranks that say themselves if they do not find each other.
Step telling(Step step) {
    step.tells_bad_wiring = true;
    return step;
}

}  // namespace

TEST(Toolkits, ChainerRunsAScriptOnEachRank) {
    const auto made =
        with_toolkit("chainerSettings",
                     R"("pythonScriptFilePath": "/nfs/train.py", "commandLineArgs": " -n $COUNT ",
           "pythonInterpreterPath": "/opt/py 3/python", "processCount": 4)");
    EXPECT_EQ(step_of(made), ranks("exec '/opt/py 3/python' '/nfs/train.py' -n $COUNT", 4, 2))
        << faults(made);
    EXPECT_EQ(made.plan->tool_type, "chainer");
}

TEST(Toolkits, PyTorchPrintsIntoAFileForEachRank) {
    const auto made = with_toolkit("pyTorchSettings", R"("pythonScriptFilePath": "a.py",
        "communicationBackend": "gloo", "processCount": 4)");
    EXPECT_EQ(step_of(made), telling(ranks("exec 'python3' 'a.py'", 4, 2, "-%t"))) << faults(made);
    EXPECT_EQ(value_of(*made.plan, "AZ_BATCHAI_PYTORCH_BACKEND"), "gloo");
    EXPECT_TRUE(made.plan->notices.empty());
}

TEST(Toolkits, PyTorchOverMpiPrintsIntoOneFile) {
    const auto made = with_toolkit("pyTorchSettings", R"("pythonScriptFilePath": "a.py",
        "communicationBackend": "MPI")");
    EXPECT_EQ(step_of(made), ranks("exec 'python3' 'a.py'", 2, 1)) << faults(made);
    EXPECT_EQ(value_of(*made.plan, "AZ_BATCHAI_PYTORCH_BACKEND"), "mpi");
}

TEST(Toolkits, PyTorchWithoutABackendLeavesTheChoiceToTheScript) {
    const auto made = with_toolkit("pyTorchSettings", R"("pythonScriptFilePath": "a.py")");
    EXPECT_EQ(step_of(made), telling(ranks("exec 'python3' 'a.py'", 2, 1, "-%t"))) << faults(made);
    EXPECT_EQ(value_of(*made.plan, "AZ_BATCHAI_PYTORCH_BACKEND"), "(unset)");
}

TEST(Toolkits, PyTorchNamesEachBackendAsTorchDoes) {
    for (const auto& [written, torchs] : {std::pair{"TCP", "tcp"}, {"NCCL", "nccl"}}) {
        const auto made = with_toolkit(
            "pyTorchSettings",
            fmt::format(R"("pythonScriptFilePath": "a.py", "communicationBackend": "{}")",
                        written));
        ASSERT_TRUE(made.plan) << faults(made);
        EXPECT_EQ(value_of(*made.plan, "AZ_BATCHAI_PYTORCH_BACKEND"), torchs);
        // PyTorch has not had a backend "tcp" for years, so its user should know.
        EXPECT_EQ(made.plan->notices.size(), written == std::string_view("TCP") ? 1U : 0U);
    }
}

TEST(Toolkits, Caffe2RunsOneProcessOnEachNode) {
    const auto made = with_toolkit(
        "caffe2Settings",
        R"("pythonScriptFilePath": "a.py", "commandLineArgs": "--shard $AZ_BATCHAI_TASK_INDEX")",
        3);
    EXPECT_EQ(step_of(made),
              ranks("exec 'python3' 'a.py' --shard $AZ_BATCHAI_TASK_INDEX", 3, 1, "-%t"))
        << faults(made);
}

TEST(Toolkits, CntkRunsAScriptOrABrainScriptConfiguration) {
    auto made = with_toolkit("cntkSettings", R"("pythonScriptFilePath": "a.py",
        "languageType": "Python", "commandLineArgs": "-x", "processCount": 2)");
    EXPECT_EQ(step_of(made), ranks("exec 'python3' 'a.py' -x", 2, 1)) << faults(made);
    made = with_toolkit("cntkSettings", R"("configFilePath": "/in/Conv Net.cntk",
        "languageType": "brainscript", "commandLineArgs": "RootDir=/in")");
    EXPECT_EQ(step_of(made), ranks("exec cntk configFile='/in/Conv Net.cntk' RootDir=/in", 2, 1))
        << faults(made);
}

TEST(Toolkits, CaffeTrainsASolverOrRunsAScript) {
    auto made = with_toolkit("caffeSettings", R"("configFilePath": "/in/solver.prototxt",
        "commandLineArgs": "-gpu all")",
                             1);
    EXPECT_EQ(step_of(made), ranks("exec caffe train -solver '/in/solver.prototxt' -gpu all", 1, 1))
        << faults(made);
    made = with_toolkit("caffeSettings", R"("pythonScriptFilePath": "a.py", "processCount": 2)");
    EXPECT_EQ(step_of(made), ranks("exec 'python3' 'a.py'", 2, 1)) << faults(made);
}

TEST(Toolkits, TensorFlowRunsOneProcessWithTheMastersArguments) {
    const auto made = with_toolkit("tensorFlowSettings", R"("pythonScriptFilePath": "a.py",
        "masterCommandLineArgs": "--steps 3", "workerCommandLineArgs": "--worker")",
                                   1);
    EXPECT_EQ(step_of(made), ranks("exec 'python3' 'a.py' --steps 3", 1, 1, "-wk-%t"))
        << faults(made);
    ASSERT_TRUE(made.plan);
    EXPECT_EQ(faults(made),
              "W203 \"workerCommandLineArgs\" has no effect: the job runs one process, "
              "which has \"masterCommandLineArgs\"");
}

namespace {

constexpr std::string_view tensorflow_script = R"("pythonScriptFilePath": "a.py")";

Made tensorflow(std::string_view settings, int nodes, std::string_view more = {}) {
    return planned(fmt::format(R"("nodeCount": {}, "stdOutErrPathPrefix": "/nfs/logs",
        "tensorFlowSettings": {{{}{}}} {})",
                               nodes, tensorflow_script, settings, more));
}

Step parameter_servers(std::string command, int processes) {
    return {.kind = StepKind::parameter_servers,
            .command = std::move(command),
            .processes = processes,
            .stdout_name = "stdout-ps-%t.txt",
            .stderr_name = "stderr-ps-%t.txt"};
}

}  // namespace

// A comment at the end of one task's arguments must not hide what the others run.
TEST(Toolkits, TensorFlowRunsWorkersBesideParameterServers) {
    const auto made = tensorflow(R"(, "masterCommandLineArgs": "--master # first",
        "workerCommandLineArgs": "--worker", "parameterServerCommandLineArgs": "--ps",
        "workerCount": 3, "parameterServerCount": 2)",
                                 2);
    ASSERT_TRUE(made.plan) << faults(made);
    ASSERT_EQ(made.plan->steps.size(), 2U);
    EXPECT_EQ(made.plan->steps[0], parameter_servers("exec 'python3' 'a.py' --ps", 2));
    EXPECT_EQ(made.plan->steps[1], ranks("if [ \"$SLURM_PROCID\" = 0 ]; then\n"
                                         "exec 'python3' 'a.py' --master # first\n\nfi\n"
                                         "exec 'python3' 'a.py' --worker",
                                         3, 2, "-wk-%t"));
    EXPECT_EQ(made.plan->allocation.processes, 3);
    EXPECT_EQ(tensorflow_cluster(*made.plan), (TensorFlowCluster{3, 2, TensorFlowMaster::worker}));
}

TEST(Toolkits, TensorFlowHasAWorkerOnEachNodeAndOneParameterServer) {
    const auto made = tensorflow("", 2);
    ASSERT_TRUE(made.plan) << faults(made);
    ASSERT_EQ(made.plan->steps.size(), 2U);
    EXPECT_EQ(made.plan->steps[0], parameter_servers("exec 'python3' 'a.py'", 1));
    EXPECT_EQ(made.plan->steps[1], ranks("exec 'python3' 'a.py'", 2, 1, "-wk-%t"));
}

TEST(Toolkits, TensorFlowNeedsNoParameterServers) {
    const auto made = tensorflow(R"(, "parameterServerCount": 0)", 2);
    EXPECT_EQ(step_of(made), ranks("exec 'python3' 'a.py'", 2, 1, "-wk-%t")) << faults(made);
    EXPECT_EQ(tensorflow_cluster(*made.plan), (TensorFlowCluster{2, 0, TensorFlowMaster::worker}));
    EXPECT_EQ(tensorflow_cluster(*tensorflow("", 1).plan), std::nullopt);
}

TEST(Toolkits, TensorFlowsMasterIsWhatTheVariableSays) {
    const auto with = [](std::string_view word) {
        return tensorflow("", 2,
                          fmt::format(R"(, "environmentVariables": [
            {{"name": "BATCHAI_TF_CONFIG", "value": "{}"}}])",
                                      word));
    };
    EXPECT_EQ(tensorflow_cluster(*with("chief").plan),
              (TensorFlowCluster{2, 1, TensorFlowMaster::chief}));
    EXPECT_EQ(tensorflow_cluster(*with("master").plan),
              (TensorFlowCluster{2, 1, TensorFlowMaster::master}));
    const auto made = with("boss");
    EXPECT_EQ(faults(made),
              R"(E116 BATCHAI_TF_CONFIG is "boss"; it must be "worker", "master" or "chief")");
    EXPECT_GT(made.diagnostics.front().position.line, 0U);
}

TEST(Toolkits, TensorFlowRefusesCountsThatDoNotFitTheNodes) {
    EXPECT_EQ(faults(tensorflow(R"(, "workerCount": 1)", 2)),
              "E102 \"workerCount\" is 1, less than the 2 nodes of the job");
    EXPECT_EQ(faults(tensorflow("", 2, R"(, "environmentVariables": [
                  {"name": "BATCHAI_ELASTIC_MIN_NODES", "value": "1"}])")),
              "E100 tensorFlowSettings with several processes cannot be an elastic job");
}

TEST(Toolkits, EachCountsItsProcessesUnderItsOwnKey) {
    EXPECT_EQ(faults(with_toolkit("chainerSettings",
                                  R"("pythonScriptFilePath": "a.py", "processCount": 1)")),
              "E102 \"processCount\" is 1, less than the 2 nodes of the job");
    EXPECT_EQ(faults(with_toolkit("pyTorchSettings",
                                  R"("pythonScriptFilePath": "a.py", "processCount": 1)")),
              "E102 \"processCount\" is 1, less than the 2 nodes of the job");
}

TEST(Toolkits, ACustomToolkitRunsOnceOnTheFirstNode) {
    const auto made = planned(R"("nodeCount": 2, "stdOutErrPathPrefix": "/l",
        "customToolkitSettings": {"commandLine": "mpirun x"},
        "jobPreparation": {"commandLine": "prepare"})");
    ASSERT_TRUE(made.plan) << faults(made);
    ASSERT_EQ(made.plan->steps.size(), 2U);
    EXPECT_EQ(made.plan->steps[0], (Step{StepKind::preparation, "prepare", 2, 1, false,
                                         "stdout-job_prep-%N.txt", "stderr-job_prep-%N.txt"}));
    EXPECT_EQ(made.plan->steps[1],
              (Step{StepKind::master, "mpirun x", 1, 1, false, "stdout.txt", "stderr.txt"}));
}

}  // namespace batchai::plan
