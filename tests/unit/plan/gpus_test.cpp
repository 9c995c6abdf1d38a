// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/gpus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/slurm_options.hpp"
#include "planned.hpp"

namespace batchai::plan {

namespace {

Allocation asking(std::string name, std::string value) {
    Allocation allocation;
    allocation.nodes = 2;
    allocation.processes = 6;
    allocation.processes_per_node = 3;
    allocation.options = {{"partition", "gpu", Origin::site},
                          {std::move(name), std::move(value), Origin::job_file}};
    return allocation;
}

// Four processes on two nodes whose VM size has CPUs for them.
Made job_with(std::string_view slurm, std::string_view processes = "4") {
    site::Site site;
    site.vm_sizes["BIG"].cpus = 8;
    Inputs inputs = test_inputs();
    inputs.cluster = ClusterView{"big", "big", std::nullopt};
    return planned(fmt::format(R"("nodeCount": 2, "stdOutErrPathPrefix": "/nfs/logs",
        "customMpiSettings": {{"commandLine": "x", "processCount": {}}}, "slurm": {{{}}})",
                               processes, slurm),
                   site, inputs);
}

}  // namespace

TEST(Gpus, AreCountedInEachFormInWhichSlurmTakesThem) {
    struct Case {
        const char* name;
        const char* value;
        std::optional<int> gpus;
    };
    for (const auto& [name, value, gpus] :
         {Case{"gres", "gpu:2", 4}, Case{"gres", "gpu", 2}, Case{"gres", "gpu:a100", 2},
          Case{"gres", "license:1,gpu:a100:4,gpu:k80:1", 10}, Case{"gres", "gpux:2", std::nullopt},
          Case{"gpus-per-node", "a100:2,k80:1", 6}, Case{"gpus-per-node", "2", 4},
          Case{"gpus", "7", 7}, Case{"gpus-per-task", "1", 6}, Case{"gpus-per-socket", "1", 0},
          Case{"gpus-per-node", "2147483647", 0}, Case{"mem", "64G", std::nullopt}})
        EXPECT_EQ(gpus_of_job(asking(name, value)), gpus) << name << '=' << value;
}

TEST(Gpus, LetTheRanksFillOneSocketAfterTheOther) {
    const auto with = job_with(R"("gres": "gpu:2")");
    ASSERT_TRUE(with.plan) << faults(with);
    EXPECT_EQ(distribution_of_ranks(*with.plan), "block:block");
    EXPECT_EQ(distribution_of_ranks(*job_with(R"("gres": "license:2")").plan), std::nullopt);
    // One rank for each node may use all CPUs of its node.
    EXPECT_EQ(distribution_of_ranks(*job_with(R"("gres": "gpu:2")", "2").plan), std::nullopt);
    Plan own = *with.plan;
    own.allocation.options.push_back({"distribution", "cyclic", Origin::sbatch_words});
    EXPECT_EQ(distribution_of_ranks(own), "cyclic");
    // Without a number of CPUs, the ranks would crowd on the first socket.
    own = *with.plan;
    own.allocation.cpus_per_process = 0;
    EXPECT_EQ(distribution_of_ranks(own), std::nullopt);
}

TEST(Gpus, ThatSeveralRanksShareCauseAWarningAtTheNumberOfProcesses) {
    EXPECT_EQ(faults(job_with(R"("gpus-per-node": "2")")), "");
    const auto made = job_with(R"("gpus-per-node": "2")", "6");
    ASSERT_TRUE(made.plan);
    EXPECT_EQ(faults(made),
              "W202 the job has 6 processes and 4 GPUs, so several ranks share a GPU");
    EXPECT_GT(made.diagnostics.front().position.line, 0U);
    EXPECT_EQ(faults(job_with(R"("gres": "license:1")", "6")), "");
}

TEST(Gpus, OfSingleTasksAreSaidToBeHiddenFromTheOtherRanks) {
    Inputs inputs = test_inputs();
    inputs.slurm.words = {{"gpus-per-task", "1", Origin::sbatch_words}};
    const auto made = planned(small_job(), {}, inputs);
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_THAT(made.plan->notices, testing::Contains(testing::HasSubstr("--gpus-per-task")));
}

}  // namespace batchai::plan
