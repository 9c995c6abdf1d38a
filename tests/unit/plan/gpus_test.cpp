// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/gpus.hpp"

#include <utility>
#include <vector>

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

// A job on two nodes, with options of `job create` after "--".
Made job_asking(std::vector<SlurmOption> words, std::string_view more = {}) {
    Inputs inputs = test_inputs();
    inputs.slurm.words = std::move(words);
    return planned(small_job(more), {}, inputs);
}

constexpr std::string_view with_spare = R"(, "spareNodes": 1)";

// Breaks when Slurm spreads the GPUs over the nodes as it likes, or those of two nodes over three.
TEST(Gpus, OfAllNodesTogetherAreDividedAmongThem) {
    for (const std::string_view more : {std::string_view(), with_spare}) {
        for (const auto& [all, each] :
             {std::pair{"4", "2"}, std::pair{"a100:4", "a100:2"},
              std::pair{"a100:4,k80:2", "a100:2,k80:1"}, std::pair{"0", "0"}}) {
            const auto made = job_asking({{"gpus", all, Origin::sbatch_words}}, more);
            ASSERT_TRUE(made.plan) << faults(made);
            const auto options = sbatch_options(*made.plan);
            EXPECT_THAT(options, testing::Contains(std::string("--gpus-per-node=") + each));
            EXPECT_THAT(options, Not(testing::Contains(testing::HasSubstr("--gpus="))));
            EXPECT_THAT(made.plan->notices, testing::Contains(testing::HasSubstr("--gpus=")));
        }
        const auto made = job_asking({{"gpus", "4", Origin::sbatch_words}}, more);
        EXPECT_EQ(gpus_of_job(made.plan->allocation), 4);
    }
}

TEST(Gpus, OfAllNodesTogetherAreLeftToSlurmIfTheyCannotBeDivided) {
    EXPECT_THAT(sbatch_options(*job_asking({{"gpus", "3", Origin::sbatch_words}}).plan),
                testing::Contains("--gpus=3"));
    // Here it is known how many a spare node needs.
    const auto both = job_asking(
        {{"gpus", "6", Origin::sbatch_words}, {"gpus-per-node", "2", Origin::sbatch_words}},
        with_spare);
    EXPECT_THAT(sbatch_options(*both.plan),
                testing::IsSupersetOf({"--gpus=6", "--gpus-per-node=2"}));
    const auto of_tasks = job_asking({{"gpus", "4", Origin::sbatch_words},
                                      {"tres-per-task", "gres/gpu:1", Origin::sbatch_words}});
    EXPECT_THAT(sbatch_options(*of_tasks.plan), testing::Contains("--gpus=4"));
    Inputs inputs = test_inputs();
    inputs.slurm.words = {{"gpus", "2", Origin::sbatch_words}};
    EXPECT_THAT(sbatch_options(*planned(small_job({}, "1"), {}, inputs).plan),
                testing::Contains("--gpus=2"));
}

TEST(Gpus, OfATypeAloneAreOne) {
    EXPECT_EQ(gpus_of_each_node("a100", 1), "a100");
    EXPECT_EQ(gpus_of_each_node("a100", 2), std::nullopt);
    EXPECT_EQ(gpus_of_each_node("a100,", 1), std::nullopt);
}

TEST(Gpus, ThatCannotBeDividedAreRefusedIfThereAreSpareNodes) {
    for (const char* const all : {"3", "1", "a100:4,k80:1", "a100", "", "4,"}) {
        const auto made = job_asking({{"gpus", all, Origin::sbatch_words}}, with_spare);
        EXPECT_FALSE(made.plan);
        EXPECT_THAT(faults(made), testing::HasSubstr("E135 --gpus")) << all;
    }
    const auto made = job_asking({{"gpus", "3", Origin::sbatch_words}}, with_spare);
    EXPECT_EQ(
        faults(made),
        "E135 --gpus=3 cannot be divided equally among the 2 nodes of the job, so nobody knows "
        "how many GPUs a spare node needs");
    EXPECT_GT(made.diagnostics.front().position.line, 0U);
    EXPECT_THAT(made.diagnostics.front().hint, testing::HasSubstr("--gpus-per-node"));
}

TEST(Gpus, OfSingleTasksAreSaidToBeHiddenFromTheOtherRanks) {
    Inputs inputs = test_inputs();
    inputs.slurm.words = {{"gpus-per-task", "1", Origin::sbatch_words}};
    const auto made = planned(small_job(), {}, inputs);
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_THAT(made.plan->notices, testing::Contains(testing::HasSubstr("--gpus-per-task")));
}

}  // namespace batchai::plan
