// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/slurm_conf.hpp"

#include <gtest/gtest.h>

namespace batchai::node {
namespace {

using std::chrono::seconds;

TEST(UnkillableStepTimeout, IsReadAsSlurmReadsIt) {
    EXPECT_EQ(unkillable_step_timeout("KillWait=5\nUnkillableStepTimeout=30\n"), seconds(30));
    EXPECT_EQ(unkillable_step_timeout(" unkillablesteptimeout = 180 # long\n"), seconds(180));
    EXPECT_EQ(unkillable_step_timeout("UnkillableStepTimeout=30\nUnkillableStepTimeout=90"),
              seconds(90));
}

TEST(UnkillableStepTimeout, IsAMinuteWhereNothingIsSaid) {
    for (const char* text : {"", "#UnkillableStepTimeout=30\n", "UnkillableStepTimeout=\n",
                             "UnkillableStepTimeout=soon\n", "UnkillableStepTimeout=-3\n",
                             "UnkillableStepTimeoutX=3\n", "UnkillableStepTimeout"})
        EXPECT_EQ(unkillable_step_timeout(text), seconds(60)) << text;
}

TEST(FlushOfKilled, LeavesTimeBeforeSlurmAndThePluginLosePatience) {
    EXPECT_EQ(flush_of_killed(seconds(20), seconds(60)), seconds(15));
    EXPECT_EQ(flush_of_killed(seconds(20), seconds(17)), seconds(9));
    EXPECT_EQ(flush_of_killed(seconds(0), seconds(65)), seconds(45));
    EXPECT_EQ(flush_of_killed(seconds(600), seconds(305)), seconds(225));
    EXPECT_EQ(flush_of_killed(seconds(20), seconds(1)), seconds(2));
}

}  // namespace
}  // namespace batchai::node
