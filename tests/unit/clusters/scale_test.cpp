// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include "clusters/file.hpp"

namespace batchai::clusters {
namespace {

using store::ScaleSettings;

ScaleSettings manual(int nodes) {
    return {.manual = store::ManualScale{.target_node_count = nodes}, .auto_scale = {}};
}

ScaleSettings automatic(int minimum, int maximum, int initial) {
    return {.manual = {},
            .auto_scale = store::AutoScale{.minimum_node_count = minimum,
                                           .maximum_node_count = maximum,
                                           .initial_node_count = initial}};
}

TEST(ScaleFlags, FollowTheTableOfTheAzureCli) {
    EXPECT_EQ(scale_from_flags({4, {}, {}}).value(), manual(4));
    EXPECT_EQ(scale_from_flags({0, {}, {}}).value(), manual(0));
    EXPECT_EQ(scale_from_flags({{}, 3, 3}).value(), manual(3));
    EXPECT_EQ(scale_from_flags({3, 3, 3}).value(), manual(3));
    EXPECT_EQ(scale_from_flags({2, 1, 5}).value(), automatic(1, 5, 2));
    EXPECT_EQ(scale_from_flags({{}, 1, 5}).value(), automatic(1, 5, 0));
    EXPECT_EQ(scale_from_flags({}).value(), std::nullopt);
}

TEST(ScaleFlags, AreRefusedInTheWordsOfTheAzureCli) {
    const auto half = scale_from_flags({{}, 1, {}});
    ASSERT_FALSE(half);
    EXPECT_EQ(half.error().what,
              "You need to either provide both min and max node counts or not provide any of them");
    const auto upside_down = scale_from_flags({{}, 5, 1});
    ASSERT_FALSE(upside_down);
    EXPECT_EQ(upside_down.error().what,
              "Maximum nodes count must be greater or equal to minimum nodes count");
    EXPECT_FALSE(scale_from_flags({-1, {}, {}}));
}

TEST(ClusterFile, IsReadIntoValues) {
    const auto file = parse_cluster_file(
        R"({"$schema": "x", "properties": {"vmSize": "STANDARD_NC6", "vmPriority": "lowpriority",
            "scaleSettings": {"manual": {"targetNodeCount": 2,
                                         "nodeDeallocationOption": "terminate"}},
            "userAccountSettings": {"adminUserName": "ann"},
            "virtualMachineConfiguration": {}}})",
        "cluster.json");
    ASSERT_TRUE(file) << file.error().text();
    EXPECT_EQ(file->vm_size, "STANDARD_NC6");
    EXPECT_EQ(file->vm_priority, store::VmPriority::low_priority);
    EXPECT_EQ(
        file->scale,
        (ScaleSettings{.manual = store::ManualScale{
                           .target_node_count = 2,
                           .node_deallocation_option = store::NodeDeallocationOption::terminate}}));
    EXPECT_EQ(file->admin_user_name, "ann");
    EXPECT_EQ(file->without_effect, std::vector<std::string>{"virtualMachineConfiguration"});
}

TEST(ClusterFile, TellsAllFaultsAtOnce) {
    const auto file = parse_cluster_file(
        R"({"properties": {"vmSise": "x", "scaleSettings": {"manual": {"targetNodeCount": -1}},
            "nodeSetup": {"setupTask": {"secrets": [{"name": "a", "value": "b"}]}}}})",
        "cluster.json");
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().exit_code, base::ExitCode::bad_job_file);
    const auto text = file.error().text();
    EXPECT_NE(text.find("did you mean \"vmSize\"?"), std::string::npos) << text;
    EXPECT_NE(text.find("targetNodeCount must be"), std::string::npos) << text;
    EXPECT_NE(text.find("setupTask needs \"commandLine\""), std::string::npos) << text;
    EXPECT_NE(text.find("setupTask needs \"stdOutErrPathPrefix\""), std::string::npos) << text;
    EXPECT_NE(text.find("setupTask.secrets is not supported yet"), std::string::npos) << text;
}

TEST(ClusterFile, ThatIsNoJsonNamesThePlace) {
    const auto file = parse_cluster_file("{\n  oops", "cluster.json");
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().where, "cluster.json:2:3");
    EXPECT_EQ(file.error().exit_code, base::ExitCode::bad_job_file);
}

}  // namespace
}  // namespace batchai::clusters
