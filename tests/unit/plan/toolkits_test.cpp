// SPDX-License-Identifier: GPL-2.0-or-later
// What each toolkit's settings make the job run, and into which files it prints.
#include <gtest/gtest.h>

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
    EXPECT_EQ(step_of(made), ranks("exec 'python3' 'a.py'", 4, 2, "-%t")) << faults(made);
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
    EXPECT_EQ(step_of(made), ranks("exec 'python3' 'a.py'", 2, 1, "-%t")) << faults(made);
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
    EXPECT_EQ(made.plan->notices.size(), 1U) << "the workers' arguments have no effect";
}

TEST(Toolkits, TensorFlowOfSeveralProcessesIsRefused) {
    const std::string refusal =
        "E100 tensorFlowSettings with several processes is not supported yet";
    const std::string script = R"("pythonScriptFilePath": "a.py")";
    auto made = with_toolkit("tensorFlowSettings", script, 2);
    EXPECT_EQ(faults(made), refusal);
    EXPECT_GT(made.diagnostics.front().position.line, 0U);
    EXPECT_EQ(faults(with_toolkit("tensorFlowSettings", script + R"(, "workerCount": 2)", 1)),
              refusal);
    EXPECT_EQ(
        faults(with_toolkit("tensorFlowSettings", script + R"(, "parameterServerCount": 1)", 1)),
        refusal);
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
