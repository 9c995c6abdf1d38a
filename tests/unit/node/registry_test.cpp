// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/keeper/registry.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/unit/node/scratch.hpp"

namespace {

namespace fs = std::filesystem;
using batchai::node::claim;
using batchai::node::release;

class Registry : public testing::Test {
  protected:
    void SetUp() override {
        auto opened = batchai::node::open_private_root(scratch.path().string());
        ASSERT_TRUE(opened);
        root = std::move(*opened);
    }

    [[nodiscard]] bool exists(const std::string& name) const {
        return fs::exists(scratch.path() / name);
    }
    void write(const std::string& name, const std::string& text) const {
        fs::create_directories((scratch.path() / name).parent_path());
        std::ofstream(scratch.path() / name) << text;
    }

    Scratch scratch;
    batchai::node::Root root;
};

TEST_F(Registry, RemovesAJobsDirectoryWithAllThatIsInIt) {
    ASSERT_TRUE(claim(root, "7", "abc"));
    write("abc/deep/er/file", "x");
    fs::permissions(scratch.path() / "abc/deep/er", fs::perms::none);
    ASSERT_TRUE(release(root, "7"));
    EXPECT_FALSE(exists("abc"));
    EXPECT_FALSE(exists("by-job/7"));
}

TEST_F(Registry, KeepsADirectoryUntilItsLastJobEnds) {
    // Two tasks of a job array share the plan, and with it the directory.
    ASSERT_TRUE(claim(root, "7", "abc"));
    ASSERT_TRUE(claim(root, "8", "abc"));
    ASSERT_TRUE(claim(root, "8", "abc"));
    ASSERT_TRUE(release(root, "7"));
    EXPECT_TRUE(exists("abc"));
    ASSERT_TRUE(release(root, "8"));
    EXPECT_FALSE(exists("abc"));
}

TEST_F(Registry, LeavesOtherJobsAlone) {
    ASSERT_TRUE(claim(root, "7", "abc"));
    ASSERT_TRUE(claim(root, "70", "def"));
    ASSERT_TRUE(release(root, "7"));
    EXPECT_TRUE(exists("def"));
    EXPECT_TRUE(exists("by-job/70"));
}

TEST_F(Registry, KnowsNothingOfOtherPeoplesJobs) {
    EXPECT_TRUE(release(root, "12345"));
}

TEST_F(Registry, RemovesALinkAndNotWhatItPointsTo) {
    const Scratch elsewhere;
    std::ofstream(elsewhere.path() / "file") << "x";
    ASSERT_TRUE(claim(root, "7", "abc"));
    fs::create_directory_symlink(elsewhere.path(), scratch.path() / "abc/link");
    ASSERT_TRUE(release(root, "7"));
    EXPECT_FALSE(exists("abc"));
    EXPECT_TRUE(fs::exists(elsewhere.path() / "file"));
}

TEST_F(Registry, RemovesADirectoryThatBecameALink) {
    const Scratch elsewhere;
    std::ofstream(elsewhere.path() / "file") << "x";
    ASSERT_TRUE(claim(root, "7", "abc"));
    fs::remove(scratch.path() / "abc");
    fs::create_directory_symlink(elsewhere.path(), scratch.path() / "abc");
    ASSERT_TRUE(release(root, "7"));
    EXPECT_TRUE(fs::exists(elsewhere.path() / "file"));
}

TEST_F(Registry, PassesOverNamesThatLeadOut) {
    write("keep/file", "x");
    write("by-job/7", "../..\nkeep/../keep\n/etc\n.\nby-job\n");
    ASSERT_TRUE(release(root, "7"));
    EXPECT_TRUE(exists("keep/file"));
    EXPECT_TRUE(exists("by-job"));
}

TEST_F(Registry, RefusesNamesAndJobsThatAreNone) {
    for (const char* name : {"", "..", "a/b", "by-job", "a\nb"})
        EXPECT_FALSE(claim(root, "7", name)) << name;
    for (const char* job : {"", "x", "../7", "12345678901"})
        EXPECT_FALSE(claim(root, job, "abc")) << job;
}

}  // namespace
