// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/job_accounts.hpp"

#include <gtest/gtest.h>

namespace batchai::slurm {
namespace {

TEST(JobAccounts, AddUpSteps) {
    const auto accounts = parse_job_accounts(
        "12|1200|01:01:01|\n"
        "12.batch|600|00:01.500|2048K\n"
        "12.0|600|1-00:00:01|1.5G\n"
        "12.extern|600|00:00:00|0\n");
    ASSERT_TRUE(accounts && *accounts);
    EXPECT_EQ((*accounts)->cpu_seconds_allocated, 1200);
    EXPECT_EQ((*accounts)->cpu_seconds, 86402.5);
    EXPECT_EQ((*accounts)->largest_task, 3LL << 29U);
}

TEST(JobAccounts, AreNothingIfNothingWasCounted) {
    for (const char* const text : {"", "12|1200|00:00:00|\n12.0|600|00:00:00|\n"}) {
        const auto accounts = parse_job_accounts(text);
        ASSERT_TRUE(accounts);
        EXPECT_FALSE(*accounts) << text;
    }
}

TEST(JobAccounts, RefuseOtherFormats) {
    for (const char* const text :
         {"12|1200|00:00:00\n", "12|x|00:00:00|\n", "12|1|1:2:3:4|\n", "12|1|inf|\n", "12|1||\n"})
        EXPECT_FALSE(parse_job_accounts(text)) << text;
}

}  // namespace
}  // namespace batchai::slurm
