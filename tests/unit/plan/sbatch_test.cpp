// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/process.hpp"
#include "planned.hpp"
#include "record/job_files.hpp"

namespace batchai::plan {

namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::StartsWith;

}  // namespace

TEST(Sbatch, AsksForNothingThatThePlanDoesNotSay) {
    Plan plan;
    plan.identity = test_inputs().identity;
    plan.directories.job_directory = "/j/100%";
    EXPECT_THAT(sbatch_options(plan),
                ElementsAre("--job-name=job",
                            "--comment=batchai:sub/group/workspaces/space/experiments/exp/jobs/job/"
                            "0123abcd-4567-89ab-cdef-0123456789ab",
                            "--open-mode=append", "--output=/j/100%%/slurm.log", "--chdir=/j/100%",
                            "--export=ALL", "--nodes=1", "--ntasks=1", "--ntasks-per-node=1",
                            "--nice=100", "--requeue"));
}

TEST(Sbatch, WritesTheLogWhereTheStoreLooksForIt) {
    Plan plan;
    plan.directories.job_directory = "/j/100";
    const record::JobFiles files(plan.directories.job_directory);
    EXPECT_THAT(sbatch_options(plan), Contains("--output=" + files.slurm_log().string()));
}

TEST(Sbatch, PutsTheSitesOwnOptionsLast) {
    Plan plan;
    plan.allocation = {.nodes = 2,
                       .processes = 8,
                       .processes_per_node = 4,
                       .cpus_per_process = 3,
                       .nice = 1000,
                       .time_limit = std::chrono::minutes(90),
                       .options = {{"exclusive", ""},
                                   {"partition", "gpu"},
                                   {"constraint", "k80"},
                                   {"gres", "gpu:1"},
                                   {"account", "acc"},
                                   {"qos", "q"},
                                   {"mem", "0"},
                                   {"licenses", "a b"}}};
    const auto options = sbatch_options(plan);
    for (const char* option :
         {"--nodes=2", "--ntasks=8", "--ntasks-per-node=4", "--cpus-per-task=3", "--exclusive",
          "--partition=gpu", "--constraint=k80", "--gres=gpu:1", "--account=acc", "--qos=q",
          "--time=01:30:00", "--nice=1000"})
        EXPECT_THAT(options, Contains(option));
    EXPECT_EQ(options[options.size() - 2], "--mem=0");
    EXPECT_EQ(options.back(), "--licenses=a b");
}

TEST(Sbatch, ScriptHandsItsWordsToTheLauncherUnharmed) {
    Plan plan;
    plan.identity = test_inputs().identity;
    plan.identity.job = "a\n#SBATCH --evil";
    plan.directories.plan_directory = "/j/it's $HOME; false";
    const std::string script = batch_script(plan, "/usr/bin/printf", "abc");
    EXPECT_THAT(script, StartsWith("#!/bin/bash\n# Batch AI job a?#SBATCH --evil\n"));
    EXPECT_EQ(std::count(script.begin(), script.end(), '\n'), 5);
    EXPECT_NE(script.find("exec '/usr/bin/printf' run --plan "), std::string::npos);
    // A real shell has to find the same words: "echo" prints what it was given.
    const auto echoed = base::run({"/bin/bash", "-c", batch_script(plan, "/bin/echo", "abc")});
    ASSERT_TRUE(echoed) << echoed.error().text();
    EXPECT_EQ(echoed->standard_output, "run --plan /j/it's $HOME; false/plan.json --digest abc\n");
}

}  // namespace batchai::plan
