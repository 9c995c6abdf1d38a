// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/trust.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace batchai::base {
namespace {

using ::testing::HasSubstr;

TEST(Trust, FilesOfTheSystemCanOnlyBeChangedByRoot) {
    EXPECT_EQ(who_else_can_change("/bin/sh"), std::nullopt);  // by way of links
    EXPECT_EQ(who_else_can_change("/tmp"), std::nullopt);     // sticky
}

TEST(Trust, ARelativePathIsAnAnswer) {
    EXPECT_THAT(who_else_can_change("bin/sh").value_or(""), HasSubstr("not an absolute path"));
}

TEST(Trust, WhatIsMissingIsAnAnswer) {
    EXPECT_THAT(who_else_can_change("/nowhere/file").value_or(""), HasSubstr("/nowhere: No such"));
}

class TrustTest : public ::testing::Test {
  protected:
    void SetUp() override {
        if (geteuid() != 0) GTEST_SKIP() << "only root can make files that are its own";
        directory_ = "/tmp/batchai-trust-" + std::to_string(getpid());
        std::filesystem::create_directories(directory_ + "/inner");
        std::ofstream(directory_ + "/inner/file") << "x";
        chmod(directory_.c_str(), 0755);
        chmod((directory_ + "/inner").c_str(), 0755);
        chmod((directory_ + "/inner/file").c_str(), 0644);
    }
    void TearDown() override {
        if (!directory_.empty()) std::filesystem::remove_all(directory_);
    }
    [[nodiscard]] std::string answer(const std::string& name) const {
        return who_else_can_change(directory_ + "/" + name).value_or("nobody");
    }
    std::string directory_;
};

TEST_F(TrustTest, AFileOfRootIsTrusted) {
    EXPECT_EQ(answer("inner/file"), "nobody");
}

TEST_F(TrustTest, AFileThatOthersCanWriteIsNot) {
    chmod((directory_ + "/inner/file").c_str(), 0664);
    EXPECT_THAT(answer("inner/file"), HasSubstr("inner/file can be written to by others"));
}

TEST_F(TrustTest, ADirectoryOnTheWayCounts) {
    chmod((directory_ + "/inner").c_str(), 0777);
    EXPECT_THAT(answer("inner/file"), HasSubstr("inner can be written to by others"));
    chmod((directory_ + "/inner").c_str(), 0755);
    ASSERT_EQ(chown((directory_ + "/inner").c_str(), 12345, 0), 0);
    EXPECT_THAT(answer("inner/file"), HasSubstr("inner belongs to user 12345"));
}

TEST_F(TrustTest, TheTargetOfALinkCounts) {
    std::filesystem::create_symlink("inner", directory_ + "/link");
    EXPECT_EQ(answer("link/file"), "nobody");
    chmod((directory_ + "/inner").c_str(), 0777);
    EXPECT_THAT(answer("link/file"), HasSubstr("inner can be written to by others"));
}

TEST_F(TrustTest, LinksInACircleEnd) {
    std::filesystem::create_symlink("b", directory_ + "/a");
    std::filesystem::create_symlink("a", directory_ + "/b");
    EXPECT_THAT(answer("a"), HasSubstr("too many links"));
}

}  // namespace
}  // namespace batchai::base
