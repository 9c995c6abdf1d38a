// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include "planned.hpp"

namespace batchai::plan {

// The user's own site.lua need not know the size: slurmctld checks its rules by the admin's.
TEST(PolicyDeclaration, NamesAVmSizeThatThisSiteLuaDoesNotKnow) {
    Inputs inputs = test_inputs();
    inputs.cluster = ClusterView{.name = "c", .vm_size = "Standard_NC6", .node_limit = {}};
    const auto made = planned(small_job(), {}, inputs);
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_EQ(made.plan->declaration, "vm_size=STANDARD_NC6 image=");
}

TEST(PolicyDeclaration, HasNoVmSizeWithoutACluster) {
    EXPECT_EQ(planned(small_job()).plan->declaration, "vm_size= image=");
}

// Slurm makes the name lower-case after the submission.
TEST(PolicyAccounts, AreComparedWithoutRegardToCase) {
    site::Site site;
    site.policy.accounts = {"physics"};
    for (const char* name : {"physics", "Physics", "PHYSICS"})
        EXPECT_TRUE(
            planned(small_job(fmt::format(R"(, "slurm": {{"account": "{}"}})", name)), site).plan)
            << name;
    EXPECT_FALSE(planned(small_job(R"(, "slurm": {"account": "Physic"})"), site).plan);
}

}  // namespace batchai::plan
