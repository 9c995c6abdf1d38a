// SPDX-License-Identifier: GPL-2.0-or-later
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planned.hpp"

namespace batchai::plan {

namespace {

using ::testing::HasSubstr;

Inputs with_setup(std::string command, std::string prefix, std::vector<Variable> environment = {}) {
    Inputs inputs = test_inputs();
    inputs.identity.cluster = "nc6";
    inputs.cluster = ClusterView{.name = "nc6", .vm_size = {}, .node_limit = {}};
    inputs.cluster->setup_task = SetupTask{.command_line = std::move(command),
                                           .std_out_err_path_prefix = std::move(prefix),
                                           .std_out_err_path_suffix = "sub/clusters/nc6/uuid",
                                           .environment = std::move(environment)};
    return inputs;
}

}  // namespace

TEST(NodeSetup, HasItsVariablesAndItsLogs) {
    const auto made =
        planned(small_job(), {},
                with_setup("cp $X /tmp", "/nfs/setup", {{"X", "it's $AZ_BATCHAI_CLUSTER_NAME"}}));
    ASSERT_TRUE(made.plan) << faults(made);
    ASSERT_TRUE(made.plan->node_setup);
    EXPECT_EQ(made.plan->node_setup->command, "export X='it'\\''s nc6'\ncp $X /tmp");
    EXPECT_EQ(made.plan->node_setup->log_directory, "/nfs/setup/sub/clusters/nc6/uuid");
    EXPECT_EQ(made.plan->node_setup->key.size(), 16U);
}

TEST(NodeSetup, IsDoneAgainIfTheTaskHasChanged) {
    const auto key = [](const Inputs& inputs) {
        return planned(small_job(), {}, inputs).plan.value().node_setup.value().key;
    };
    const std::string first = key(with_setup("a", "/nfs"));
    EXPECT_EQ(key(with_setup("a", "/nfs")), first);
    EXPECT_NE(key(with_setup("b", "/nfs")), first);
    EXPECT_NE(key(with_setup("a", "/nfs", {{"X", "1"}})), first);
    // Another job has another temporary directory, which a variable may name.
    const std::vector<Variable> temporary{{"X", "$AZ_BATCHAI_JOB_TEMP"}};
    Inputs other = with_setup("a", "/nfs", temporary);
    other.identity.uuid = "ffffffff-4567-89ab-cdef-0123456789ab";
    EXPECT_EQ(key(other), key(with_setup("a", "/nfs", temporary)));
}

TEST(NodeSetup, KeepsItsLogsWithTheJobIfTheirPlaceIsLocal) {
    const auto made = planned(small_job(), {}, with_setup("a", "$AZ_BATCHAI_JOB_TEMP/logs"));
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_EQ(made.plan->node_setup->log_directory, "");
    EXPECT_THAT(made.plan->notices.back(), HasSubstr("are among those of the job"));
}

TEST(NodeSetup, NeedsAnAbsolutePrefix) {
    for (const char* prefix : {"logs", "/nfs/../etc", "$UNKNOWN"}) {
        const auto made = planned(small_job(), {}, with_setup("a", prefix));
        EXPECT_FALSE(made.plan);
        EXPECT_THAT(faults(made), HasSubstr("the setup task of cluster \"nc6\"")) << prefix;
    }
}

}  // namespace batchai::plan
