// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/job_devices.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchai::slurm {
namespace {

using testing::ElementsAre;

TEST(JobDevices, AreReadForEachNode) {
    const auto devices = parse_job_devices(
        "JobId=7 JobName=Nodes=evil\n"
        "   NumNodes=3 NumCPUs=6 NumTasks=3\n"
        "   JOB_GRES=gpu:tesla:4,gpu:volta:1,widget:1\n"
        "     Nodes=h[1-2] CPU_IDs=0-1 Mem=512 GRES=gpu:tesla:2(IDX:0-1),gpu:volta:1(IDX:5,7)\n"
        "     Nodes=h3 CPU_IDs=0-1 Mem=512 GRES=widget:1(CNT:1)\n"
        "     Nodes=h4 CPU_IDs=0-1 Mem=512 GRES=\n");
    ASSERT_TRUE(devices) << devices.error().text();
    EXPECT_THAT(devices->at("h1").at("gpu"), ElementsAre(0, 1, 5, 7));
    EXPECT_EQ(devices->at("h1"), devices->at("h2"));
    EXPECT_TRUE(devices->at("h3").empty());
    EXPECT_FALSE(devices->contains("h4"));
}

TEST(JobDevices, ThatMakeNoSenseAreAFault) {
    for (const char* gres :
         {"gpu:1(IDX:x)", "gpu:1(IDX:2-1)", "gpu:1(IDX:)", "gpu:1(IDX:0-99999)", "gpu:1(IDX:-1)"})
        EXPECT_FALSE(parse_job_devices(std::string("   Nodes=h1 CPU_IDs=0 GRES=") + gres)) << gres;
}

}  // namespace
}  // namespace batchai::slurm
