// SPDX-License-Identifier: GPL-2.0-or-later
#include "admin/plugstack.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchai::admin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PlugstackTest : public ::testing::Test {
  protected:
    void SetUp() override {
        directory_ = ::testing::TempDir() + "plugstack/";
        std::filesystem::remove_all(directory_);
        std::filesystem::create_directories(directory_ + "plugstack.conf.d");
    }
    std::string write(const std::string& name, const std::string& text) {
        std::ofstream(directory_ + name) << text;
        return directory_ + name;
    }
    std::string directory_;
};

TEST_F(PlugstackTest, IncludesAreReadWithAllThatMatchTheirPattern) {
    write("plugstack.conf.d/b.conf", "optional /opt/batchai.so timeout=40 # ours\n");
    write("plugstack.conf.d/a.conf", "required other.so\n");
    const auto path = write("plugstack.conf", "# Slurm\n\ninclude plugstack.conf.d/*.conf\n");
    const auto read = read_plugstack(path);
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_THAT(read->faults, ElementsAre());
    EXPECT_EQ(read->files.size(), 3U);
    ASSERT_EQ(read->lines.size(), 2U);
    EXPECT_TRUE(read->lines[0].required);
    const auto ours = lines_of_batchai(*read);
    ASSERT_EQ(ours.size(), 1U);
    EXPECT_EQ(ours[0], (PlugstackLine{.place = directory_ + "plugstack.conf.d/b.conf:1",
                                      .required = false,
                                      .plugin = "/opt/batchai.so",
                                      .arguments = {"timeout=40"}}));
}

TEST_F(PlugstackTest, LinesThatSlurmDoesNotUnderstandAreFaults) {
    const auto path = write("plugstack.conf", "optionel batchai.so\nrequired\n");
    const auto read = read_plugstack(path);
    ASSERT_TRUE(read);
    EXPECT_THAT(read->faults, ElementsAre(HasSubstr(":1: \"optionel\" is neither"),
                                          HasSubstr(":2: nothing follows")));
    EXPECT_THAT(read->lines, ElementsAre());
}

TEST_F(PlugstackTest, AFileThatIncludesItselfEnds) {
    const auto read = read_plugstack(write("plugstack.conf", "include plugstack.conf\n"));
    ASSERT_TRUE(read);
    EXPECT_THAT(read->faults, ElementsAre(HasSubstr("too deeply")));
}

TEST_F(PlugstackTest, AMissingFileIsAnErrorAndAMissingIncludeIsNot) {
    EXPECT_FALSE(read_plugstack(directory_ + "no.conf"));
    const auto read = read_plugstack(write("plugstack.conf", "include none/*.conf\n"));
    ASSERT_TRUE(read);
    EXPECT_THAT(read->faults, ElementsAre());
}

}  // namespace
}  // namespace batchai::admin
