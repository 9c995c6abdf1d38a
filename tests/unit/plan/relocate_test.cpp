// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/relocate.hpp"

#include <gtest/gtest.h>

#include "planned.hpp"

namespace batchai::plan {

namespace {

Plan array_plan() {
    const auto made = planned(small_job(R"(, "environmentVariables": [
        {"name": "MINE", "value": "a:$AZ_BATCHAI_JOB_TEMP/x:$AZ_BATCHAI_STDOUTERR_DIR"}],
        "outputDirectories": [{"id": "MODEL", "pathPrefix": "/nfs/out", "pathSuffix": "m"}])"));
    if (!made.plan) throw std::runtime_error(faults(made));
    return *made.plan;
}

}  // namespace

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
