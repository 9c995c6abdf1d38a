// SPDX-License-Identifier: GPL-2.0-or-later
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planned.hpp"

namespace batchai::plan {

namespace {

Inputs on_cluster(std::string size, std::optional<int> limit) {
    Inputs inputs = test_inputs();
    inputs.cluster = ClusterView{"nc6", std::move(size), limit};
    inputs.identity.cluster = "nc6";
    return inputs;
}

std::string mpi_job(int nodes, int processes) {
    return fmt::format(R"("nodeCount": {}, "stdOutErrPathPrefix": "/nfs/logs",
        "customMpiSettings": {{"commandLine": "x", "processCount": {}}})",
                       nodes, processes);
}

}  // namespace

TEST(Allocation, SpreadsProcessesOverNodesRoundingUp) {
    struct Case {
        int nodes, processes, per_node;
    };
    for (const auto& [nodes, processes, per_node] :
         {Case{1, 1, 1}, Case{2, 8, 4}, Case{2, 5, 3}, Case{3, 3, 1}, Case{4, 5, 2}}) {
        const auto made = planned(mpi_job(nodes, processes));
        ASSERT_TRUE(made.plan) << faults(made);
        EXPECT_EQ(made.plan->allocation.processes, processes);
        EXPECT_EQ(made.plan->allocation.processes_per_node, per_node);
        EXPECT_EQ(made.plan->steps.back().processes_per_node, per_node);
    }
}

TEST(Allocation, RefusesFewerProcessesThanNodes) {
    const auto made = planned(mpi_job(4, 3));
    EXPECT_FALSE(made.plan);
    EXPECT_EQ(faults(made), "E102 \"processCount\" is 3, less than the 4 nodes of the job");
    EXPECT_GT(made.diagnostics.front().position.line, 0U);
}

TEST(Allocation, TakesTheVmSizeWithoutRegardToCase) {
    site::Site site;
    site.default_partition = "all";
    site.vm_sizes["STANDARD_NC24"] = {"gpu", "k80", "", 24, 4, {{"mem", "0"}}};
    const auto made = planned(mpi_job(2, 8), site, on_cluster("Standard_NC24", 2));
    ASSERT_TRUE(made.plan) << faults(made);
    const Allocation& allocation = made.plan->allocation;
    EXPECT_EQ(allocation.cpus_per_process, 6);
    EXPECT_EQ(allocation.options, (std::vector<SlurmOption>{{"exclusive", "", Origin::site},
                                                            {"partition", "gpu", Origin::vm_size},
                                                            {"constraint", "k80", Origin::vm_size},
                                                            {"gres", "gpu:4", Origin::vm_size},
                                                            {"mem", "0", Origin::vm_size}}));
}

TEST(Allocation, MapsAnUnknownVmSizeToTheDefaultPartitionOrRefusesIt) {
    site::Site site;
    site.default_partition = "all";
    site.vm_sizes["STANDARD_NC6"] = {};
    auto made = planned(small_job(), site, on_cluster("STANDARD_NC7", 9));
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_THAT(made.plan->allocation.options,
                testing::Contains(SlurmOption{"partition", "all", Origin::site}));
    site.any_vm_size = false;
    made = planned(small_job(), site, on_cluster("STANDARD_NC7", 9));
    EXPECT_EQ(faults(made),
              "E105 cluster \"nc6\" has the VM size \"STANDARD_NC7\", which this site does not "
              "have; did you mean \"STANDARD_NC6\"?");
}

TEST(Allocation, KeepsTheClustersNodeCountAsItsCap) {
    EXPECT_TRUE(planned(small_job(), {}, on_cluster("", 2)).plan);
    const auto made = planned(small_job(), {}, on_cluster("", 1));
    EXPECT_EQ(faults(made), "E106 the job asks for 2 nodes, cluster \"nc6\" has 1");
    EXPECT_EQ(made.diagnostics.front().hint,
              "batchai cluster resize --name nc6 --resource-group group --workspace space "
              "--target 2");
}

TEST(Allocation, OrdersPrioritiesWithoutOperatorRights) {
    const auto nice = [](std::string_view priority) {
        const auto made =
            planned(small_job(fmt::format(R"(, "schedulingPriority": "{}")", priority)));
        return made.plan.value().allocation.nice;
    };
    EXPECT_GT(nice("low"), nice("normal"));
    EXPECT_GT(nice("normal"), nice("high"));
    EXPECT_GE(nice("high"), 0);
}

// Breaks when jobs of the older schemas with different priorities get the same one.
TEST(Allocation, KeepsTheOrderOfNumericPriorities) {
    const auto nice = [](int priority) {
        const auto parsed = job::parse(
            fmt::format(R"({{"$schema": "2018-03-01", "properties": {{{}, "priority": {}}}}})",
                        small_job(), priority));
        const auto made = make(parsed.spec.value(), parsed.positions, {}, test_inputs());
        return made.plan.value().allocation.nice;
    };
    EXPECT_EQ(nice(-1000), 1000);
    EXPECT_GT(nice(-500), nice(-400));
    EXPECT_EQ(nice(0), normal_nice);
    EXPECT_GT(nice(100), nice(200));
    EXPECT_EQ(nice(1000), 0);
}

TEST(Allocation, AsksForATimeLimitOnlyWhenTheFileHasOne) {
    EXPECT_EQ(planned(small_job()).plan.value().allocation.time_limit.count(), 0);
    const auto made = planned(small_job(R"(, "constraints": {"maxWallClockTime": "PT61S"})"));
    EXPECT_EQ(made.plan.value().allocation.time_limit.count(), 2);
}

}  // namespace batchai::plan
