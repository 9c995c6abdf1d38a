// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/keeper/registry.hpp"

#include <filesystem>
#include <fstream>
#include <set>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include "base/lock.hpp"
#include "tests/unit/base/scratch.hpp"

namespace {

namespace fs = std::filesystem;
using batchai::node::claim;
using batchai::node::end_claims;
using batchai::node::jobs_left;

// The job's end and the clean-up after it.
batchai::base::Result<void> release(const batchai::base::Root& root, const std::string& job) {
    static_cast<void>(end_claims(root, job));
    return batchai::node::release(root, job, {});
}

class Registry : public testing::Test {
  protected:
    void SetUp() override {
        auto opened = batchai::base::open_private_directory(scratch.path().string());
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
    batchai::base::Root root;
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

TEST_F(Registry, KeepsWhatTheSameJobQueuedAgainUses) {
    ASSERT_TRUE(claim(root, "7", "abc"));
    ASSERT_TRUE(claim(root, "7", "def"));
    ASSERT_TRUE(end_claims(root, "7"));
    ASSERT_TRUE(claim(root, "7", "abc"));
    ASSERT_TRUE(batchai::node::release(root, "7", {}));
    EXPECT_TRUE(exists("abc"));
    EXPECT_FALSE(exists("def"));
    ASSERT_TRUE(release(root, "7"));
    EXPECT_FALSE(exists("abc"));
}

TEST_F(Registry, RemovesNothingThatIsStillBeingStored) {
    ASSERT_TRUE(claim(root, "7", "abc"));
    write("abc/.volumes/0/0/lock", "");
    const batchai::base::FileDescriptor lock(
        open((scratch.path() / "abc/.volumes/0/0/lock").c_str(), O_RDWR));
    ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);
    EXPECT_FALSE(release(root, "7"));
    EXPECT_TRUE(exists("abc"));
    ASSERT_EQ(flock(lock.get(), LOCK_UN), 0);
    EXPECT_TRUE(release(root, "7"));
    EXPECT_FALSE(exists("abc"));
}

TEST_F(Registry, RemovesWhatAnInterruptedCleanUpHasSetAside) {
    ASSERT_TRUE(claim(root, "7", "abc"));
    write(".7.abc/file", "set aside before");
    write("abc/file", "made anew since");
    ASSERT_TRUE(release(root, "7"));
    EXPECT_FALSE(exists("abc"));
    EXPECT_FALSE(exists(".7.abc"));
}

TEST_F(Registry, TellsWhatIsLeftOfJobsThatCannotLive) {
    ASSERT_TRUE(claim(root, "7", "abc"));
    ASSERT_TRUE(claim(root, "8", "def"));
    ASSERT_TRUE(claim(root, "9", "ghi"));
    EXPECT_TRUE(jobs_left(root).empty());
    ASSERT_TRUE(end_claims(root, "8"));
    write("by-job/7.boot", batchai::base::boot_id() + "\n");
    write("by-job/9.boot", "an earlier run of the node");
    EXPECT_EQ(jobs_left(root), (std::set<std::string>{"8", "9"}));
    ASSERT_TRUE(release(root, "8"));
    ASSERT_TRUE(release(root, "9"));
    EXPECT_TRUE(jobs_left(root).empty());
    EXPECT_TRUE(exists("abc"));
}

TEST_F(Registry, KnowsOfNoClaimOfAJobThatHasNone) {
    EXPECT_FALSE(end_claims(root, "7"));
    EXPECT_FALSE(end_claims(root, "../7"));
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
