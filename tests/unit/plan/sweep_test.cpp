// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/sweep.hpp"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/relocate.hpp"
#include "plan/slurm_options.hpp"
#include "planned.hpp"

namespace batchai::plan {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Sweep sweep_in(std::string_view settings) {
    const auto made = planned(small_job(fmt::format(R"(, "sweep": {{{}}})", settings)));
    if (!made.sweep) throw std::runtime_error(faults(made));
    return *made.sweep;
}

}  // namespace

TEST(SweepPoints, OfAGridChangeTheLastParameterFastest) {
    const Sweep sweep = sweep_in(R"("parameters": {"lr": [0.1, "x"], "seed": "1-3"})");
    EXPECT_THAT(sweep.parameters, ElementsAre("lr", "seed"));
    EXPECT_THAT(sweep.points, ElementsAre(ElementsAre("0.1", "1"), ElementsAre("0.1", "2"),
                                          ElementsAre("0.1", "3"), ElementsAre("x", "1"),
                                          ElementsAre("x", "2"), ElementsAre("x", "3")));
}

TEST(SweepPoints, OfAListGoTogether) {
    const auto expected = ElementsAre(ElementsAre("0.1", "true"), ElementsAre("1e-3", "false"));
    EXPECT_THAT(
        sweep_in(R"("mode": "list", "parameters": {"lr": [0.1, 1e-3], "on": [true, false]})")
            .points,
        expected);
    EXPECT_THAT(sweep_in(R"("mode": "list", "parameters":
                    [{"lr": 0.1, "on": true}, {"on": false, "lr": 1e-3}])")
                    .points,
                expected);
}

TEST(SweepPoints, AtRandomAreTheSameForASeedAndWithinTheirBounds) {
    const std::string text = R"("mode": "random", "samples": 200, "seed": {}, "parameters": {
        "lr": {"loguniform": [1e-5, 0.1]}, "drop": {"uniform": [0, 0.5]},
        "opt": {"choice": ["sgd", "adam"]}, "depth": "2-4"})";
    const auto with_seed = [&](int seed) {
        std::string settings = text;
        settings.replace(settings.find("{}"), 2, std::to_string(seed));
        return sweep_in(settings);
    };
    const Sweep seven = with_seed(7);
    ASSERT_EQ(seven.points.size(), 200U);
    EXPECT_EQ(seven, with_seed(7));
    EXPECT_NE(seven.points, with_seed(8).points);
    std::set<std::string> chosen;
    std::set<std::string> depths;
    int small = 0;
    for (const SweepPoint& point : seven.points) {
        const double rate = std::stod(point[0]);
        EXPECT_GE(rate, 1e-5);
        EXPECT_LE(rate, 0.1);
        if (rate < 1e-3) ++small;
        EXPECT_LE(std::stod(point[1]), 0.5);
        chosen.insert(point[2]);
        depths.insert(point[3]);
    }
    // Half of the logarithms are below that of the middle. A uniform draw would have 2 there.
    EXPECT_GT(small, 70);
    EXPECT_LT(small, 130);
    EXPECT_EQ(chosen, (std::set<std::string>{"adam", "sgd"}));
    EXPECT_EQ(depths, (std::set<std::string>{"2", "3", "4"}));
    // These figures must never change: a user repeats a sweep by its seed.
    EXPECT_THAT(sweep_in(R"("mode": "random", "samples": 2, "seed": 7, "parameters":
                    {"x": {"uniform": [0, 1]}})")
                    .points,
                ElementsAre(ElementsAre("0.38983"), ElementsAre("0.0167883")));
}

TEST(Sweep, BecomesAnArrayThatIsCapped) {
    const auto made =
        planned(small_job(R"(, "sweep": {"parameters": {"seed": "1-8"}, "maxConcurrent": 3})"));
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_THAT(sbatch_options(*made.plan), ::testing::Contains("--array=0-7%3"));
    EXPECT_EQ(made.plan->sweep->count, 8);
}

TEST(Sweep, AndAnArrayContradictEachOther) {
    const auto made = planned(
        small_job(R"(, "sweep": {"parameters": {"seed": "1-8"}}, "slurm": {"array": "0-3"})"));
    EXPECT_EQ(faults(made), "E122 \"sweep\" and an array contradict each other");
}

TEST(Sweep, CannotRunInOneAllocation) {
    const auto made = planned(small_job(R"(, "sweep": {"parameters": {"seed": "1-8"}})"));
    EXPECT_TRUE(options_at_door(*made.plan, Door::sbatch, {}, "job.json"));
    EXPECT_FALSE(options_at_door(*made.plan, Door::srun, {}, "job.json"));
    EXPECT_FALSE(options_at_door(*made.plan, Door::salloc, {}, "job.json"));
    EXPECT_FALSE(options_at_door(*made.plan, Door::sbatch, {{"array", "0-1"}}, "job.json"));
}

TEST(Sweep, GivesEachTaskItsValues) {
    const auto made = planned(small_job(R"(, "sweep": {"parameters": {
            "lr": [0.1, "$(touch x) '\"\n--y"], "tag": ["a"]}},
        "environmentVariables": [{"name": "BOTH",
            "value": "$AZ_BATCHAI_SWEEP_LR,${AZ_BATCHAI_SWEEP_TAG}"}],
        "outputDirectories": [{"id": "MODEL", "pathPrefix": "/nfs/out",
            "pathSuffix": "$AZ_BATCHAI_SWEEP_TAG-$AZ_BATCHAI_SWEEP_POINT"}])"));
    ASSERT_TRUE(made.plan) << faults(made);
    const Plan task = of_array_task(*made.plan, 1, made.sweep->points[1]);
    const std::string odd = "$(touch x) '\"\n--y";
    EXPECT_EQ(value_of(task, "AZ_BATCHAI_SWEEP_LR"), odd);
    EXPECT_EQ(value_of(task, "AZ_BATCHAI_SWEEP_TAG"), "a");
    EXPECT_EQ(value_of(task, "AZ_BATCHAI_SWEEP_POINT"), "1");
    EXPECT_EQ(value_of(task, "BOTH"), odd + ",a");
    EXPECT_EQ(task.outputs.at(0).path_host,
              fmt::format("/nfs/out/{}/task-1/outputs/a-1", made.plan->identity.path_segment()));
    // The value is in no command: the job's shell takes it from the environment.
    EXPECT_EQ(task.steps, made.plan->steps);
}

TEST(Sweep, RefusesValuesThatLeadToOtherDirectories) {
    for (const char* value : {"../../x", "..", "a/b", "", "'", "a b"}) {
        const auto made = planned(small_job(fmt::format(
            R"(, "sweep": {{"parameters": {{"tag": ["ok", "{}"]}}}},
            "outputDirectories": [{{"id": "M", "pathPrefix": "/nfs/out/$AZ_BATCHAI_SWEEP_TAG"}}])",
            value)));
        EXPECT_THAT(faults(made), HasSubstr("E122 the value")) << value;
    }
    // A script's path becomes a quoted word for the shell.
    const auto made = planned(R"("nodeCount": 1, "stdOutErrPathPrefix": "/nfs/logs",
        "sweep": {"parameters": {"tag": ["';touch x;'"]}},
        "horovodSettings": {"pythonScriptFilePath": "/nfs/$AZ_BATCHAI_SWEEP_TAG.py"})");
    EXPECT_THAT(faults(made), HasSubstr("E122 the value"));
}

TEST(Sweep, RefusesAVariableThatBecomesTooLong) {
    const std::string value(4096, 'x');
    std::string many;
    for (int i = 0; i < 40; ++i)
        many += "$AZ_BATCHAI_SWEEP_A";
    const auto made = planned(small_job(fmt::format(
        R"(, "sweep": {{"parameters": {{"a": ["{}"]}}}},
        "environmentVariables": [{{"name": "MANY", "value": "{}"}}])",
        value, many)));
    EXPECT_THAT(faults(made), HasSubstr("MANY becomes too long"));
}

}  // namespace batchai::plan
