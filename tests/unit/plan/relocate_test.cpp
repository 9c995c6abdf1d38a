// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/relocate.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/record.hpp"
#include "planned.hpp"
#include "tests/unit/filled.hpp"

namespace batchai::plan {

namespace {

Plan array_plan() {
    const auto made = planned(small_job(R"(, "environmentVariables": [
        {"name": "MINE", "value": "a:$AZ_BATCHAI_JOB_TEMP/x:$AZ_BATCHAI_STDOUTERR_DIR"}],
        "outputDirectories": [{"id": "MODEL", "pathPrefix": "/nfs/out", "pathSuffix": "m"}])"));
    if (!made.plan) throw std::runtime_error(faults(made));
    return *made.plan;
}

// A plan in which every text names all places that can move.
Plan plan_of_places() {
    const Plan planned = array_plan();
    const Directories& places = planned.directories;
    Plan plan;
    base::fill(plan, fmt::format("{}/a:{}/b:/nfs/{}/c:{}/d", places.job_directory, places.job_temp,
                                 planned.identity.path_segment(), places.node_root));
    plan.identity = planned.identity;
    plan.directories.node_root = places.node_root;
    plan.directories.job_temp = places.job_temp;
    plan.directories.job_directory = places.job_directory;
    plan.directories.plan_directory = places.plan_directory;
    return plan;
}

// Returns the texts of the plan's JSON in which `old` is there without one of `moved` at its place,
// each with the key before it.
std::vector<std::string> texts_with(const base::Value& value, const std::string& old,
                                    const std::string& moved, const std::string& key = {}) {
    std::vector<std::string> out;
    const auto add = [&](const base::Value& part, const std::string& name) {
        for (std::string& found : texts_with(part, old, moved, name))
            out.push_back(std::move(found));
    };
    if (const std::string* const text = value.string()) {
        for (auto at = text->find(old); at != std::string::npos; at = text->find(old, at + 1)) {
            if (text->compare(at, moved.size(), moved) != 0) out.push_back(key + "=" + *text);
        }
    } else if (const auto* const items = value.array()) {
        for (const base::Value& item : *items)
            add(item, key);
    } else if (const auto* const members = value.object()) {
        for (const auto& [name, member] : *members)
            add(member, name);
    }
    return out;
}

}  // namespace

// Breaks when something of a plan still names the directories that all tasks would share.
TEST(ArrayTask, HasNoTextWithThePlaceOfTheWholeArray) {
    const Plan plan = plan_of_places();
    const base::Value task = base::to_value(of_array_task(plan, 3));
    const std::string plan_directory = "planDirectory=" + plan.directories.plan_directory;
    EXPECT_EQ(texts_with(task, plan.directories.job_directory,
                         plan.directories.job_directory + "/task-3"),
              std::vector<std::string>{plan_directory});
    EXPECT_EQ(texts_with(task, plan.directories.job_temp, plan.directories.job_temp + ".3"),
              std::vector<std::string>());
    EXPECT_EQ(
        texts_with(task, plan.identity.path_segment(), plan.identity.path_segment() + "/task-3"),
        std::vector<std::string>());
}

// Breaks when something of a plan still names the directory of somebody else on a node.
TEST(NodeRootOfAPlan, IsInNoTextOfThePlanThatWasMoved) {
    const Plan plan = plan_of_places();
    const std::string moved = plan.directories.node_root + ".x7Gq2c";
    const base::Value on_node = base::to_value(with_node_root(plan, moved));
    EXPECT_EQ(texts_with(on_node, plan.directories.node_root, moved), std::vector<std::string>());
}

TEST(NodeRootOfAPlan, IsReplacedInWholePathsOnly) {
    const auto moved = [](const std::string& text) {
        Plan plan;
        plan.directories.node_root = "/tmp/batchai-1001";
        plan.notices = {text};
        return with_node_root(plan, "/tmp/batchai-1001.xyz").notices.at(0);
    };
    EXPECT_EQ(moved("/tmp/batchai-1001"), "/tmp/batchai-1001.xyz");
    EXPECT_EQ(moved("a=/tmp/batchai-1001/u:/tmp/batchai-1001/v"),
              "a=/tmp/batchai-1001.xyz/u:/tmp/batchai-1001.xyz/v");
    for (const char* other :
         {"/tmp/batchai-10012/x", "/scratch/tmp/batchai-1001/x", "/tmp/batchai-1001.abc/x", ""})
        EXPECT_EQ(moved(other), other);
}

TEST(ArrayTask, HasDirectoriesOfItsOwnAndSharesWhatWasFrozen) {
    const Plan plan = array_plan();
    const Plan third = of_array_task(plan, 3);
    EXPECT_EQ(third.directories.job_directory, plan.directories.job_directory + "/task-3");
    EXPECT_EQ(third.directories.plan_directory, plan.directories.job_directory);
    EXPECT_EQ(third.directories.shared_job_temp, plan.directories.job_directory + "/task-3/shared");
    EXPECT_EQ(third.directories.job_temp, plan.directories.job_temp + ".3");
    EXPECT_EQ(third.directories.job_mount_root, plan.directories.job_temp + ".3/mounts");
    EXPECT_EQ(third.directories.stdouterr,
              fmt::format("/nfs/logs/{}/task-3/stdouterr", plan.identity.path_segment()));
    ASSERT_EQ(third.outputs.size(), 1U);
    EXPECT_EQ(third.outputs[0].path,
              fmt::format("/nfs/out/{}/task-3/outputs/m", plan.identity.path_segment()));
    EXPECT_EQ(third.steps, plan.steps);
}

TEST(ArrayTask, NamesItsDirectoriesInTheEnvironment) {
    const Plan plan = array_plan();
    const Plan third = of_array_task(plan, 3);
    EXPECT_EQ(value_of(third, "MINE"),
              fmt::format("a:{}/x:{}", third.directories.job_temp, third.directories.stdouterr));
    EXPECT_EQ(value_of(third, "AZ_BATCHAI_MPI_HOST_FILE"),
              third.directories.job_directory + "/hostfile");
    EXPECT_EQ(value_of(third, "AZ_BATCHAI_OUTPUT_MODEL"), third.outputs[0].path);
    EXPECT_EQ(value_of(third, "AZ_BATCHAI_JOB_NAME"), "job");
}

TEST(ArrayTask, RunsWhatIsInItsOwnDirectories) {
    const auto made = planned(R"("nodeCount": 1, "stdOutErrPathPrefix": "/nfs/logs",
        "caffeSettings": {"configFilePath": "$AZ_BATCHAI_SHARED_JOB_TEMP/solver.prototxt"})");
    ASSERT_TRUE(made.plan) << faults(made);
    const Plan third = of_array_task(*made.plan, 3);
    EXPECT_EQ(third.steps.at(0).command,
              fmt::format("exec caffe train -solver '{}/solver.prototxt'",
                          third.directories.shared_job_temp));
}

TEST(ArrayTask, LooksForProgressInItsOwnDirectory) {
    const auto made = planned(small_job(R"(, "retry": {"on": ["75"],
        "stopWithoutProgress": {"directory": "$AZ_BATCHAI_OUTPUT_MODEL"}},
        "outputDirectories": [{"id": "MODEL", "pathPrefix": "/nfs/out", "pathSuffix": "m"}])"));
    ASSERT_TRUE(made.plan) << faults(made);
    const Plan third = of_array_task(*made.plan, 3);
    EXPECT_EQ(third.retry->progress_directory, third.outputs.at(0).path);
}

TEST(ArrayTask, SharesNoDirectoryWithAnotherTask) {
    const Plan plan = array_plan();
    const Plan first = of_array_task(plan, 1);
    const Plan eleventh = of_array_task(plan, 11);
    EXPECT_NE(first.directories.job_directory, eleventh.directories.job_directory);
    EXPECT_NE(first.directories.job_temp, eleventh.directories.job_temp);
    EXPECT_NE(first.directories.stdouterr, eleventh.directories.stdouterr);
}

TEST(ArrayTask, NumberIsWhatSlurmSays) {
    EXPECT_EQ(array_task_number("0"), 0);
    EXPECT_EQ(array_task_number("4000000"), 4000000);
    for (const char* text : {"", "-1", "1x", "../1", "99999999999"})
        EXPECT_FALSE(array_task_number(text)) << text;
}

}  // namespace batchai::plan
