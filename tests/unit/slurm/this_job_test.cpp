// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/this_job.hpp"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slurm/own_environment.hpp"

namespace batchai::slurm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// What squeue 22.05 prints of an array job whose last task has the array's own number.
constexpr const char* of_array =
    "4|RUNNING|20001|1|3|2|N/A|h[1-2]|\n"
    "3|RUNNING|20001|0|3|5|N/A|h3|\n"
    "2|COMPLETED|20001|0|2|N/A|N/A|h4|\n";

TEST(ThisJob, IsWhatSlurmSaysOfTheJobWithThisNumber) {
    const auto task = read_this_job(of_array, "4", 20001);
    ASSERT_TRUE(task) << task.error().text();
    EXPECT_EQ(
        *task,
        (ThisJob{
            .job_id = "4", .restart = 1, .nodes = {"h1", "h2"}, .array_id = "3", .array_task = 2}));
    EXPECT_EQ(task->id_in_commands(), "3_2");
    EXPECT_EQ(text_for_plugin(*task), "4 1 2");
    const auto last = read_this_job(of_array, "3", 20001);
    ASSERT_TRUE(last);
    EXPECT_EQ(last->array_task, 5) << "not that of another task of the array";
}

TEST(ThisJob, OutsideOfAnArrayHasNoTask) {
    const auto job = read_this_job("12|COMPLETING|7|0|12|N/A|N/A|n1|\n", "12", 7);
    ASSERT_TRUE(job) << job.error().text();
    EXPECT_FALSE(job->array_task);
    EXPECT_EQ(job->id_in_commands(), "12");
    EXPECT_EQ(text_for_plugin(*job), "12 0");
}

TEST(ThisJob, RunsAlsoInAStateThatALaterSlurmAdds) {
    EXPECT_TRUE(read_this_job("12|BREATHING|7|0|12|N/A|N/A|n1|\n", "12", 7));
    EXPECT_FALSE(read_this_job("12|BREATHING|7|0|12|N/A|N/A||\n", "12", 7));
}

TEST(ThisJob, IsRefusedWhereTheNumberIsLeftFromElsewhere) {
    struct Case {
        const char* answer;
        const char* why;
    };
    for (const Case& bad :
         {Case{"", "does not know"}, Case{"112|RUNNING|7|0|112|N/A|N/A|n1|\n", "does not know"},
          Case{"12|COMPLETED|7|0|12|N/A|N/A|n1|\n", "does not run"},
          Case{"12|PENDING|7|0|12|N/A|N/A||\n", "does not run"},
          Case{"12|REQUEUED|7|0|12|N/A|N/A|n1|\n", "does not run"},
          Case{"12|RUNNING|8|0|12|N/A|N/A|n1|\n", "another user's"},
          Case{"12|RUNNING|7|0|12|N/A|0|n1|\n", "heterogeneous"},
          Case{"12|RUNNING|7|0|n1|\n", "cannot be understood"}}) {
        const auto job = read_this_job(bad.answer, "12", 7);
        ASSERT_FALSE(job) << bad.answer;
        EXPECT_THAT(job.error().what, HasSubstr(bad.why));
    }
}

TEST(ThisJob, NeedsTheNumberOfOne) {
    for (const char* id : {"", "1;2", "-1"}) {
        setenv("SLURM_JOB_ID", id, 1);
        const auto job = this_job();
        ASSERT_FALSE(job);
        EXPECT_EQ(job.error().exit_code, base::ExitCode::usage);
        EXPECT_FALSE(job.error().hint.empty());
    }
    unsetenv("SLURM_JOB_ID");
}

TEST(OwnEnvironment, HasNothingThatAJobHasSetForItself) {
    const base::Environment environment = without_variables_of_a_job(
        {"HOME=/home/a", "BATCHAI_HOME=/r", "BATCHAI_PLAN=/p", "BATCHAI_PLAN_DIGEST=d",
         "BATCHAI_SLURM_JOB=4 0", "BATCHAI_SANDBOX=d", "AZ_BATCHAI_NUM_GPUS=0",
         "AZ_BATCH_NODE_ID=h1", "MPI_BRIDGE_FAILURE_RECORD=/f", "HOROVOD_ELASTIC=1",
         "BATCHAI_RANK_VARIABLES=RANK=1,WORLD_SIZE=2,MASTER_ADDR=h1", "RANK=1", "WORLD_SIZE=4",
         "MASTER_ADDR=h1", "HOROVOD_TIMELINE=/t"});
    EXPECT_THAT(environment, ElementsAre("HOME=/home/a", "BATCHAI_HOME=/r", "WORLD_SIZE=4",
                                         "HOROVOD_TIMELINE=/t"))
        << "what the user has set stays";
}

TEST(OwnEnvironment, IsLeftAloneOutsideOfAJob) {
    const base::Environment environment{"RANK=1", "AZ_BATCHAI_MINE=1", "HOROVOD_ELASTIC=1"};
    EXPECT_EQ(without_variables_of_a_job(environment), environment);
}

}  // namespace
}  // namespace batchai::slurm
