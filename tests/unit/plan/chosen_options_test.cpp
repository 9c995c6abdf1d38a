// SPDX-License-Identifier: GPL-2.0-or-later
// Which of several choices of one of Slurm's options counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/slurm_options.hpp"
#include "planned.hpp"

namespace batchai::plan {

namespace {

using testing::Contains;
using testing::IsSupersetOf;
using testing::Not;
using testing::StartsWith;

struct Layers {
    site::Site site;
    Inputs inputs = test_inputs();
    std::string file;  // the inside of "slurm"

    // Returns "--name=value" of each option, in the order of sbatch's arguments.
    [[nodiscard]] std::vector<std::string> arguments() const { return sbatch_options(plan()); }
    [[nodiscard]] Plan plan() const {
        const auto made =
            planned(small_job(fmt::format(R"(, "slurm": {{{}}})", file)), site, inputs);
        EXPECT_TRUE(made.plan) << faults(made);
        return made.plan.value_or(Plan());
    }
    [[nodiscard]] Origin origin_of(std::string_view name) const {
        for (const SlurmOption& option : allocation_options(plan())) {
            if (option.name == name) return option.origin;
        }
        return Origin::launcher;
    }
};

// All origins name a partition.
Layers all_layers() {
    Layers layers;
    layers.site.default_partition = "of-site";
    layers.site.vm_sizes["NC6"].partition = "of-size";
    layers.inputs.cluster = ClusterView{"nc6", "NC6", std::nullopt};
    layers.inputs.slurm.defaults.partition = "of-config";
    layers.file = R"("partition": "of-file")";
    layers.inputs.slurm.flags.partition = "of-flag";
    layers.inputs.slurm.words = {{"partition", "of-words", Origin::sbatch_words}};
    return layers;
}

}  // namespace

TEST(ChosenOptions, AreOfTheNearestOrigin) {
    Layers layers = all_layers();
    const auto expect = [&](const char* value, Origin origin) {
        EXPECT_THAT(layers.arguments(), Contains(fmt::format("--partition={}", value)));
        EXPECT_EQ(layers.origin_of("partition"), origin) << value;
    };
    expect("of-words", Origin::sbatch_words);
    layers.inputs.slurm.words.clear();
    expect("of-flag", Origin::flag);
    layers.inputs.slurm.flags = {};
    expect("of-file", Origin::job_file);
    layers.file.clear();
    expect("of-config", Origin::user_config);
    layers.inputs.slurm.defaults = {};
    expect("of-size", Origin::vm_size);
    layers.inputs.cluster.reset();
    expect("of-site", Origin::site);
}

TEST(ChosenOptions, AreEachThereOnce) {
    int partitions = 0;
    for (const std::string& argument : all_layers().arguments())
        partitions += argument.starts_with("--partition=") ? 1 : 0;
    EXPECT_EQ(partitions, 1);
}

TEST(ChosenOptions, ReplaceThoseThatSayTheSameInAnotherWay) {
    Layers layers;
    layers.site.vm_sizes["NC6"].gpus = 4;
    layers.site.vm_sizes["NC6"].extra_options = {{"mem-per-cpu", "1G"}};
    layers.inputs.cluster = ClusterView{"nc6", "NC6", std::nullopt};
    EXPECT_THAT(layers.arguments(), Contains("--gres=gpu:4"));
    layers.file = R"("gpus-per-node": "a100:2", "mem": "64G")";
    EXPECT_THAT(layers.arguments(), IsSupersetOf({"--gpus-per-node=a100:2", "--mem=64G"}));
    EXPECT_THAT(layers.arguments(), Not(Contains(StartsWith("--gres"))));
    EXPECT_THAT(layers.arguments(), Not(Contains(StartsWith("--mem-per-cpu"))));
    // Two options of one origin are both meant.
    layers.file = R"("gpus-per-node": "2", "gres": "license:1")";
    EXPECT_THAT(layers.arguments(), IsSupersetOf({"--gpus-per-node=2", "--gres=license:1"}));
}

TEST(ChosenOptions, MayTakeExclusiveNodesBack) {
    Layers layers;
    EXPECT_THAT(layers.arguments(), Contains("--exclusive"));
    EXPECT_EQ(layers.origin_of("exclusive"), Origin::site);
    layers.inputs.slurm.defaults.exclusive = false;
    EXPECT_THAT(layers.arguments(), Not(Contains("--exclusive")));
    layers.file = R"("exclusive": true)";
    EXPECT_THAT(layers.arguments(), Contains("--exclusive"));
    EXPECT_EQ(layers.origin_of("exclusive"), Origin::job_file);
    layers.inputs.slurm.words = {{"oversubscribe", "", Origin::sbatch_words}};
    EXPECT_THAT(layers.arguments(), Not(Contains("--exclusive")));
}

TEST(ChosenOptions, ReplaceTheCommentTimeAndPriorityOfThePlan) {
    Layers layers;
    EXPECT_THAT(layers.arguments(), Contains(StartsWith("--comment=batchai:")));
    layers.file = R"("comment": "third try")";
    EXPECT_THAT(layers.arguments(), Contains("--comment=third try"));
    EXPECT_THAT(layers.arguments(), Not(Contains(StartsWith("--comment=batchai:"))));
    layers.inputs.slurm.words = {{"nice", "5", Origin::sbatch_words},
                                 {"time", "9", Origin::sbatch_words}};
    EXPECT_THAT(layers.arguments(), IsSupersetOf({"--nice=5", "--time=9"}));
    EXPECT_THAT(layers.arguments(), Not(Contains("--nice=100")));
}

TEST(ChosenOptions, OfTheFileGiveWayToTheUsersAtADoor) {
    Layers layers;
    layers.file = R"("partition": "gpu", "comment": "x", "array": "0-3")";
    const auto options =
        options_at_door(layers.plan(), Door::sbatch, {{"partition", "mine"}}, "job.json");
    ASSERT_TRUE(options) << options.error().text();
    std::vector<std::string> set;
    for (const SlurmOption& option : *options)
        set.push_back(argument_of(option));
    EXPECT_THAT(set, Not(Contains(StartsWith("--partition"))));
    EXPECT_THAT(set, IsSupersetOf({"--comment=x", "--array=0-3"}));
    // Only sbatch submits array jobs.
    const auto at_srun = options_at_door(layers.plan(), Door::srun, {}, "job.json");
    ASSERT_TRUE(at_srun);
    for (const SlurmOption& option : *at_srun)
        EXPECT_NE(option.name, "array");
}

}  // namespace batchai::plan
