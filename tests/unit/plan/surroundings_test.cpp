// SPDX-License-Identifier: GPL-2.0-or-later
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/paths.hpp"
#include "plan/relocate.hpp"
#include "planned.hpp"

namespace batchai::plan {

namespace {

using testing::HasSubstr;

Inputs submitted_in(const std::string& directory) {
    Inputs inputs = test_inputs();
    inputs.working_directory = directory;
    inputs.file_directory = directory;
    return inputs;
}

std::string horovod(const std::string& script, const std::string& more) {
    return R"("nodeCount": 1, "stdOutErrPathPrefix": "/nfs/logs",
        "horovodSettings": {"pythonScriptFilePath": ")" +
           script + R"("}, )" + more;
}

const std::string copy = "/home/ada/.batchai/jobs/1/snapshot";

}  // namespace

TEST(SoftwareOfAJob, HasAbsolutePaths) {
    const Made made = planned(small_job(
        R"(, "software": {"modules": ["cuda/12.4"], "modulePaths": ["~/modules", "$HOME/m/"],
            "purge": true, "venv": "$AZ_BATCHAI_JOB_TEMP/v"})"));
    ASSERT_TRUE(made.plan) << faults(made);
    const Software& software = *made.plan->software;
    EXPECT_EQ(software.modules, (std::vector<std::string>{"cuda/12.4"}));
    EXPECT_EQ(software.module_paths,
              (std::vector<std::string>{"/home/ada/modules", "/home/ada/m"}));
    EXPECT_TRUE(software.purge);
    EXPECT_EQ(software.venv, made.plan->directories.job_temp + "/v");
    EXPECT_EQ(software.python, "python");
    EXPECT_EQ(software.seconds, 600);
}

TEST(SoftwareOfAJob, RefusesRelativePaths) {
    for (const char* path : {"venv", "/a/../b", "$NOT_SET"})
        EXPECT_THAT(
            faults(planned(small_job(R"(, "software": {"venv": ")" + std::string(path) + R"("})"))),
            HasSubstr("E131 must be an absolute path"));
}

TEST(SoftwareOfAJob, GivesRanksThePythonOfItsEnvironment) {
    site::Site site;
    site.python_interpreter = "/usr/bin/python3";
    const auto command = [&](const std::string& more) {
        return planned(horovod("/nfs/a.py", more), site).plan->steps.back().command;
    };
    EXPECT_THAT(command(R"("software": {"modules": ["x"]})"), HasSubstr("'/usr/bin/python3'"));
    EXPECT_THAT(command(R"("software": {"venv": "/nfs/v"})"), HasSubstr("exec 'python' "));
}

TEST(SoftwareOfAJob, WarnsOfListsThatReplaceIt) {
    EXPECT_THAT(faults(planned(small_job(
                    R"(, "software": {"modules": ["x"]},
                        "environmentVariables": [{"name": "PATH", "value": "/bin"}])"))),
                HasSubstr("W231 PATH replaces"));
}

TEST(SnapshotOfAJob, IsOfTheScriptsDirectoryAndTheScriptRunsFromIt) {
    const Made made = planned(horovod("/nfs/train/deep/a.py", R"("snapshot": {})"), {},
                              submitted_in("/home/ada"));
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_EQ(made.plan->snapshot->source, "/nfs/train/deep");
    EXPECT_EQ(made.plan->snapshot->directory, copy);
    EXPECT_EQ(made.plan->snapshot->max_bytes, 100 << 20);
    EXPECT_EQ(made.plan->snapshot->working_directory, "");
    EXPECT_EQ(value_of(*made.plan, "AZ_BATCHAI_JOB_SNAPSHOT"), copy);
    EXPECT_THAT(made.plan->steps.back().command, HasSubstr("'" + copy + "/a.py'"));
}

TEST(SnapshotOfAJob, IsOfTheNamedDirectoryAndTasksStartInIt) {
    const Made made = planned(horovod("deep/a.py", R"("snapshot": {"directory": "~/train"})"), {},
                              submitted_in("/home/ada/train/x"));
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_EQ(made.plan->snapshot->source, "/home/ada/train");
    EXPECT_EQ(made.plan->snapshot->working_directory, copy + "/x");
    EXPECT_THAT(made.plan->steps.back().command, HasSubstr("'" + copy + "/x/deep/a.py'"));
}

TEST(SnapshotOfAJob, IsOfTheJobFilesDirectoryIfThereIsNoScript) {
    const Made made =
        planned(small_job(R"(, "snapshot": {})"), {}, submitted_in("/home/ada/train"));
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_EQ(made.plan->snapshot->source, "/home/ada/train");
}

TEST(SnapshotOfAJob, MayBeOfADirectoryAboveTheJobFile) {
    const Made made = planned(horovod("../a.py", R"("snapshot": {"directory": ".."})"), {},
                              submitted_in("/home/ada/train/jobs"));
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_EQ(made.plan->snapshot->source, "/home/ada/train");
    EXPECT_EQ(made.plan->snapshot->working_directory, copy + "/jobs");
    EXPECT_THAT(made.plan->steps.back().command, HasSubstr("'" + copy + "/a.py'"));
}

TEST(SnapshotOfAJob, LeavesOtherPathsAlone) {
    const Made made =
        planned(horovod("/nfs/trainer/a.py", R"("snapshot": {"directory": "/nfs/train"})"), {},
                submitted_in("/"));
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_THAT(made.plan->steps.back().command, HasSubstr("'/nfs/trainer/a.py'"));
}

TEST(SnapshotOfAJob, IsOneForAllTasksOfAnArray) {
    const Made made =
        planned(horovod("/nfs/train/a.py", R"("snapshot": {}, "slurm": {"array": "0-3"})"), {},
                submitted_in("/nfs/train"));
    ASSERT_TRUE(made.plan) << faults(made);
    const Plan task = of_array_task(*made.plan, 2);
    EXPECT_EQ(value_of(task, "AZ_BATCHAI_JOB_SNAPSHOT"), copy);
    EXPECT_THAT(task.steps.back().command, HasSubstr("'" + copy + "/a.py'"));
    EXPECT_EQ(task.snapshot->working_directory, copy);
}

TEST(WebhookOfAJob, KeepsItsUrlOutOfThePlan) {
    const Made made = planned(small_job(
        R"(, "notification": {"webhook": {"url": "https://hooks/hush", "onlyFailures": true}})"));
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_TRUE(made.plan->webhook->only_failures);
    ASSERT_EQ(made.mount_secrets.size(), 1U);
    EXPECT_EQ(made.mount_secrets.front(),
              (Variable{made.plan->webhook->secret_name, "https://hooks/hush"}));
}

TEST(WebhookOfAJob, RefusesUrlsWithoutShowingThem) {
    const auto refused = [](const std::string& url, const site::Site& site = {}) {
        const std::string text = faults(planned(
            small_job(R"(, "notification": {"webhook": {"url": ")" + url + R"("}})"), site));
        EXPECT_EQ(text.find("hush"), std::string::npos) << text;
        return text;
    };
    EXPECT_THAT(refused("http://hooks/hush"), HasSubstr("E133 the webhook's URL begins with http"));
    for (const char* url : {"ftp://hooks/hush", "hooks/hush", "file:///hush"})
        EXPECT_THAT(refused(url), HasSubstr("E133 the webhook's URL does not begin with https://"));
    for (const char* url : {"https://", "https:///hush", "https://h/hush{a}", "https://h/hush\\\""})
        EXPECT_THAT(refused(url), HasSubstr("E133 the webhook's URL has no host")) << url;
    site::Site site;
    site.webhooks_over_http = true;
    EXPECT_EQ(refused("http://hooks/hush", site), "");
}

TEST(NotesOnFailedNodes, AreLeftIfTheSiteWantsThem) {
    site::Site site;
    EXPECT_FALSE(planned(small_job(""), site).plan->note_failed_nodes);
    site.note_failed_nodes = true;
    EXPECT_TRUE(planned(small_job(""), site).plan->note_failed_nodes);
}

TEST(HomeDirectory, StandsForATilde) {
    EXPECT_EQ(below_home("~/a", "/home/ada"), "/home/ada/a");
    EXPECT_EQ(below_home("~", "/home/ada"), "/home/ada");
    EXPECT_EQ(below_home("~bob/a", "/home/ada"), "~bob/a");
    EXPECT_EQ(below_home("/a/~/b", "/home/ada"), "/a/~/b");
}

}  // namespace batchai::plan
