// SPDX-License-Identifier: GPL-2.0-or-later
#include "admin/plugin_object.hpp"

#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <slurm/slurm_version.h>

namespace batchai::admin {
namespace {

using ::testing::HasSubstr;

TEST(PluginObject, HasTheVersionOfSlurmThatItWasBuiltFor) {
    const auto number = slurm_version_of_plugin(PLUGIN);
    ASSERT_TRUE(number) << number.error().text();
    EXPECT_EQ(*number, SLURM_VERSION_NUMBER);
}

TEST(PluginObject, AProgramIsNoPlugin) {
    const auto number = slurm_version_of_plugin(SELF);
    ASSERT_FALSE(number);
    EXPECT_THAT(number.error().what, HasSubstr("no plugin_version"));
}

TEST(PluginObject, AFileThatIsCutOffAnywhereIsAnError) {
    std::ifstream file(PLUGIN, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    ASSERT_GT(bytes.size(), 1000U);
    const std::string path = ::testing::TempDir() + "cut.so";
    for (std::size_t length = 0; length < bytes.size() / 2; length = length * 2 + 1) {
        std::ofstream(path, std::ios::binary) << bytes.substr(0, length);
        EXPECT_FALSE(slurm_version_of_plugin(path)) << length;
    }
}

TEST(PluginObject, NumbersAreWrittenAsSlurmWritesThem) {
    EXPECT_EQ(slurm_version_text(0x160508), "22.05.8");
    EXPECT_EQ(slurm_version_text(0x1A0505), "26.05.5");
}

}  // namespace
}  // namespace batchai::admin
