// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include "planned.hpp"

namespace batchai::plan {

namespace {

std::string job_logging_to(std::string_view prefix, std::string_view more = {}) {
    return fmt::format(R"("nodeCount": 1, "stdOutErrPathPrefix": "{}",
        "customToolkitSettings": {{"commandLine": "x"}} {})",
                       prefix, more);
}

constexpr std::string_view segment =
    "sub/group/workspaces/space/experiments/exp/jobs/job/0123abcd-4567-89ab-cdef-0123456789ab";

}  // namespace

TEST(Outputs, PutLogsBelowThePrefixAndTheJobsPath) {
    const auto made = planned(job_logging_to("/nfs//logs/"));
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_EQ(made.plan->directories.stdouterr, fmt::format("/nfs/logs/{}/stdouterr", segment));
    EXPECT_EQ(made.plan->directories.stdouterr_host, made.plan->directories.stdouterr);
    EXPECT_EQ(value_of(*made.plan, "AZ_BATCHAI_STDOUTERR_DIR"), made.plan->directories.stdouterr);
}

TEST(Outputs, SayThatLogsOnANodeCannotBeListed) {
    const auto made = planned(job_logging_to("$AZ_BATCHAI_JOB_TEMP_DIR"));
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_EQ(made.plan->directories.stdouterr_host, "");
    EXPECT_FALSE(made.plan->container);
    ASSERT_EQ(made.plan->notices.size(), 1U);
    EXPECT_NE(made.plan->notices[0].find("$AZ_BATCHAI_JOB_TEMP_DIR"), std::string::npos);
}

TEST(Outputs, RefuseAPrefixWhereNothingIsMountedAndNameTheMounts) {
    const std::string mounted = R"(, "mountVolumes": {"azureFileShares": [{"azureFileUrl":
        "https://acct.file.core.windows.net/s", "relativeMountPath": "mine"}]})";
    const auto made = planned(job_logging_to("$AZ_BATCHAI_JOB_MOUNT_ROOT/yours", mounted));
    EXPECT_EQ(
        faults(made),
        "E104 nothing is mounted at \"stdOutErrPathPrefix\" $AZ_BATCHAI_JOB_MOUNT_ROOT/yours");
    EXPECT_EQ(made.diagnostics[0].hint, "the job mounts $AZ_BATCHAI_JOB_MOUNT_ROOT/mine");
    EXPECT_FALSE(planned(job_logging_to("$AZ_BATCHAI_JOB_MOUNT_ROOT/mine2", mounted)).plan);
    EXPECT_TRUE(planned(job_logging_to("$AZ_BATCHAI_JOB_MOUNT_ROOT/mine/2", mounted)).plan);
}

TEST(Outputs, RefuseAPrefixThatIsNotAPlainAbsolutePath) {
    for (const char* prefix : {"logs", "$NOPE", "/nfs/../etc"}) {
        const auto made = planned(job_logging_to(prefix));
        EXPECT_FALSE(made.plan) << prefix;
        EXPECT_EQ(made.diagnostics.back().code, "E103") << prefix;
    }
}

TEST(Outputs, MakeADirectoryForEachId) {
    const auto made = planned(job_logging_to("/l", R"(, "outputDirectories": [
        {"id": "A", "pathPrefix": "/nfs", "pathSuffix": "x/y"},
        {"id": "B", "pathPrefix": "$AZ_BATCHAI_OUTPUT_A"},
        {"id": "C", "pathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/external"}])"));
    ASSERT_TRUE(made.plan) << faults(made);
    const auto& outputs = made.plan->outputs;
    ASSERT_EQ(outputs.size(), 3U);
    EXPECT_EQ(outputs[0].path, fmt::format("/nfs/{}/outputs/x/y", segment));
    EXPECT_EQ(outputs[0].path_host, outputs[0].path);
    EXPECT_EQ(outputs[1].path, fmt::format("{}/{}/outputs", outputs[0].path, segment));
    EXPECT_EQ(outputs[2].path_host, "");
    EXPECT_EQ(made.diagnostics.size(), 1U);
    EXPECT_EQ(made.diagnostics[0].code, "W201");
    EXPECT_EQ(value_of(*made.plan, "AZ_BATCHAI_OUTPUT_A"), outputs[0].path);
}

TEST(Outputs, RefuseASuffixThatLeavesThePrefix) {
    const auto made = planned(job_logging_to(
        "/l", R"(, "outputDirectories": [{"id": "A", "pathPrefix": "/n", "pathSuffix": "../x"}])"));
    EXPECT_FALSE(made.plan);
}

TEST(Containers, CanBeIgnored) {
    const auto job = job_logging_to(
        "/l", R"(, "containerSettings": {"imageSourceRegistry": {"image": "img:1"}})");
    Inputs inputs = test_inputs();
    inputs.ignore_container = true;
    const auto made = planned(job, {}, inputs);
    ASSERT_TRUE(made.plan) << faults(made);
    ASSERT_EQ(made.plan->notices.size(), 1U);
    EXPECT_NE(made.plan->notices[0].find("img:1"), std::string::npos);
}

TEST(Faults, AreAllFoundAtOnceInTheOrderOfTheFile) {
    const auto made = planned(R"("nodeCount": 2, "stdOutErrPathPrefix": "x",
        "tensorFlowSettings": {"pythonScriptFilePath": "a", "workerCount": 1},
        "mountVolumes": {"fileServers": [{"fileServer": {"id": "q"}, "relativeMountPath": "n"}]},
        "containerSettings": {"imageSourceRegistry": {"image": "i#"}})");
    std::vector<std::string> codes;
    for (const auto& diagnostic : made.diagnostics)
        codes.push_back(diagnostic.code);
    EXPECT_EQ(codes, (std::vector<std::string>{"E103", "E102", "E107", "E114"}));
}

}  // namespace batchai::plan
