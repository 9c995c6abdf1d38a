// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/client.hpp"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchai::slurm {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::Not;
using ::testing::StartsWith;

TEST(ScrubbedEnvironment, KeepsWhichSlurmToTalkToAndDropsWhatChangesAnswers) {
    setenv("SQUEUE_FORMAT", "%i", 1);
    setenv("SLURM_CLUSTERS", "other", 1);
    setenv("SBATCH_PARTITION", "nope", 1);
    setenv("SLURM_CONF", "/etc/slurm/other.conf", 1);
    const auto environment = scrubbed_environment();
    EXPECT_THAT(environment, Contains("SLURM_CONF=/etc/slurm/other.conf"));
    EXPECT_THAT(environment, Each(Not(StartsWith("SQUEUE_"))));
    EXPECT_THAT(environment, Each(Not(StartsWith("SLURM_CLUSTERS"))));
    EXPECT_THAT(environment, Each(Not(StartsWith("SBATCH_"))));
    for (const char* name : {"SQUEUE_FORMAT", "SLURM_CLUSTERS", "SBATCH_PARTITION", "SLURM_CONF"})
        unsetenv(name);
}

TEST(ClientArguments, WhatIsNoJobIdNeverReachesSlurm) {
    const Client client;
    for (const char* id : {"", "-u", "--user=root", "1,2", "12;", "99999999999"}) {
        EXPECT_FALSE(client.cancel(id)) << id;
        EXPECT_FALSE(client.jobs({id})) << id;
    }
    EXPECT_TRUE(client.jobs({}).value().empty());
}

}  // namespace
}  // namespace batchai::slurm
