// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/usage/nvml.hpp"

#include <gtest/gtest.h>

// Runs with the stand-in of nvml_standin.cpp.
namespace batchai::node {
namespace {

TEST(Nvml, ReadsTheGpusOfTheJob) {
    const auto nvml = Nvml::open({3, 1});
    ASSERT_TRUE(nvml) << nvml.error().text();
    const auto gpus = nvml->read();
    ASSERT_EQ(gpus.size(), 2U);
    EXPECT_EQ(gpus[0],
              (record::GpuUsage{
                  .index = 3, .busy = 97, .memory = std::int64_t{40} << 30U, .watts = 350}));
    EXPECT_EQ(gpus[1], (record::GpuUsage{.index = 1, .busy = 0, .memory = 0}));
}

TEST(Nvml, SaysWhyThereAreNone) {
    const auto nvml = Nvml::open({7});
    ASSERT_FALSE(nvml);
    EXPECT_NE(nvml.error().text().find("none of the job's"), std::string::npos);
}

}  // namespace
}  // namespace batchai::node
