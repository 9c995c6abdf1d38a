// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/beneath.hpp"

#include <filesystem>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/base/scratch.hpp"

namespace {

namespace fs = std::filesystem;
using batchai::base::is_plain_relative;
using batchai::base::make_beneath;
using batchai::base::open_private_directory;
using batchai::base::relative_to;

TEST(RelativeTo, ComparesWholeComponents) {
    EXPECT_EQ(relative_to("/a/b", "/a/b/c/d").value_or("none"), "c/d");
    for (const char* path :
         {"/a/bc", "/a/b", "/a/b/", "/a/b/../c", "/a/b/./c", "/a/b//c", "/x/b/c", "a/b/c", ""})
        EXPECT_FALSE(relative_to("/a/b", path)) << path;
}

TEST(IsPlainRelative, RefusesWhatCouldLeadOut) {
    EXPECT_TRUE(is_plain_relative("a/b..c/.d"));
    for (const char* path : {"", "/a", "a//b", "..", "a/..", "a/./b", "a/"})
        EXPECT_FALSE(is_plain_relative(path)) << path;
}

TEST(MakeBeneath, MakesPrivateDirectories) {
    const Scratch scratch;
    ASSERT_EQ(mkdir((scratch.path() / "root").c_str(), 0700), 0);
    const auto root = open_private_directory((scratch.path() / "root").string());
    ASSERT_TRUE(root);
    ASSERT_TRUE(make_beneath(*root, "a/b"));
    ASSERT_TRUE(make_beneath(*root, "a/b")) << "a second time";
    struct stat status {};
    ASSERT_EQ(stat((scratch.path() / "root/a/b").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777U, 0700U);
}

TEST(MakeBeneath, DoesNotFollowLinks) {
    const Scratch scratch;
    ASSERT_EQ(mkdir((scratch.path() / "root").c_str(), 0700), 0);
    const auto root = open_private_directory((scratch.path() / "root").string());
    ASSERT_TRUE(root);
    fs::create_directory(scratch.path() / "elsewhere");
    fs::create_directory_symlink(scratch.path() / "elsewhere", scratch.path() / "root/link");
    EXPECT_FALSE(make_beneath(*root, "link/new"));
    EXPECT_FALSE(make_beneath(*root, "link"));
    EXPECT_FALSE(fs::exists(scratch.path() / "elsewhere/new"));
}

TEST(MakeBeneath, RefusesAFileInTheWay) {
    const Scratch scratch;
    ASSERT_EQ(mkdir((scratch.path() / "root").c_str(), 0700), 0);
    const auto root = open_private_directory((scratch.path() / "root").string());
    ASSERT_TRUE(root);
    fs::copy_file("/proc/self/cmdline", scratch.path() / "root/file");
    EXPECT_FALSE(make_beneath(*root, "file/a"));
}

TEST(OpenPrivateDirectory, RefusesALink) {
    const Scratch scratch;
    fs::create_directory(scratch.path() / "real");
    fs::create_directory_symlink(scratch.path() / "real", scratch.path() / "link");
    EXPECT_FALSE(open_private_directory((scratch.path() / "link").string()));
}

TEST(OpenPrivateDirectory, RefusesADirectoryThatOthersMayWriteTo) {
    const Scratch scratch;
    const auto path = scratch.path() / "open";
    fs::create_directory(path);
    ASSERT_EQ(chmod(path.c_str(), 0770), 0);
    const auto root = open_private_directory(path.string());
    ASSERT_FALSE(root);
    EXPECT_NE(root.error().text().find("other users may write"), std::string::npos);
}

TEST(OpenPrivateDirectory, RefusesADirectoryOfSomebodyElse) {
    // As root: somebody else's is nobody's. As a user: root's own.
    const Scratch scratch;
    fs::path path = "/usr";
    if (geteuid() == 0) {
        path = scratch.path() / "theirs";
        fs::create_directory(path);
        ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
    }
    const auto root = open_private_directory(path.string());
    ASSERT_FALSE(root);
    EXPECT_NE(root.error().text().find("belongs to another user"), std::string::npos);
}

}  // namespace
