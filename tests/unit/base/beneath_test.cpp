// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/beneath.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/base/scratch.hpp"

namespace {

namespace fs = std::filesystem;
using batchai::base::all_names_in;
using batchai::base::FileDescriptor;
using batchai::base::is_plain_relative;
using batchai::base::Links;
using batchai::base::make_beneath;
using batchai::base::make_guarded_directory;
using batchai::base::names_in;
using batchai::base::open_beneath;
using batchai::base::open_private_directory;
using batchai::base::read_private_file_guarded;
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

class GuardedDirectory : public testing::Test {
  protected:
    GuardedDirectory() {
        // As a site's directory in which everybody has a project.
        fs::create_directory(scratch.path() / "shared");
        fs::permissions(scratch.path() / "shared", fs::perms::all | fs::perms::sticky_bit);
        fs::create_directory(scratch.path() / "elsewhere");
    }
    [[nodiscard]] std::string path(const char* name) const {
        return (scratch.path() / name).string();
    }

    Scratch scratch;
};

TEST_F(GuardedDirectory, IsMadeWithWhatIsMissingAboveIt) {
    for (int time = 0; time < 2; ++time) {
        const auto made = make_guarded_directory(path("shared/./a//b/"));
        ASSERT_TRUE(made);
        EXPECT_EQ(made->path, path("shared/a/b"));
    }
    EXPECT_TRUE(fs::is_directory(path("shared/a/b")));
}

TEST_F(GuardedDirectory, IsNotWhereALinkInASharedDirectoryLeads) {
    fs::create_directory_symlink(path("elsewhere"), path("shared/planted"));
    for (const char* name : {"shared/planted", "shared/planted/a"}) {
        const auto made = make_guarded_directory(path(name));
        ASSERT_FALSE(made) << name;
        EXPECT_EQ(made.error().where, path("shared/planted"));
    }
    EXPECT_TRUE(fs::is_empty(path("elsewhere")));
}

TEST_F(GuardedDirectory, IsNotWhereALinkInSomebodyElsesDirectoryLeads) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
    fs::create_directory(path("theirs"));
    fs::create_directory_symlink(path("elsewhere"), path("theirs/planted"));
    ASSERT_EQ(chown(path("theirs").c_str(), 65534, 65534), 0);
    EXPECT_FALSE(make_guarded_directory(path("theirs/planted/a")));
    EXPECT_TRUE(fs::is_empty(path("elsewhere")));
}

TEST_F(GuardedDirectory, IsWhereTheUsersOwnLinkLeads) {
    fs::create_directory_symlink("elsewhere", path("own"));
    ASSERT_TRUE(make_guarded_directory(path("own/a")));
    EXPECT_TRUE(fs::is_directory(path("elsewhere/a")));
}

TEST_F(GuardedDirectory, IsNotBehindAFileOrUpwards) {
    std::ofstream(path("file")) << "x";
    EXPECT_FALSE(make_guarded_directory(path("file")));
    EXPECT_FALSE(make_guarded_directory(path("file/a")));
    EXPECT_FALSE(make_guarded_directory(path("elsewhere/../a")));
}

TEST_F(GuardedDirectory, HasAPrivateFileOnlyOnAWayThatNobodyElseCouldMake) {
    std::ofstream(path("elsewhere/key")) << "hush";
    fs::permissions(path("elsewhere/key"), fs::perms::owner_read | fs::perms::owner_write);
    fs::create_directory_symlink("elsewhere", path("own"));
    fs::create_directory_symlink(path("elsewhere"), path("shared/planted"));
    EXPECT_EQ(read_private_file_guarded(path("own/key"), 100).value_or(""), "hush");
    const auto planted = read_private_file_guarded(path("shared/planted/key"), 100);
    ASSERT_FALSE(planted);
    EXPECT_EQ(planted.error().where, path("shared/planted"));
    const auto missing = read_private_file_guarded(path("elsewhere/none"), 100);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().where, path("elsewhere/none"));
    fs::create_symlink("key", path("elsewhere/link"));
    EXPECT_FALSE(read_private_file_guarded(path("elsewhere/link"), 100));
    fs::permissions(path("elsewhere/key"), fs::perms::group_read, fs::perm_options::add);
    const auto open_file = read_private_file_guarded(path("elsewhere/key"), 100);
    ASSERT_FALSE(open_file);
    EXPECT_EQ(open_file.error().hint, "chmod 600 " + path("elsewhere/key"));
}

TEST(OpenBeneath, FollowsLinksAsFarAsItIsTold) {
    const Scratch scratch;
    fs::create_directories(scratch.path() / "root/real");
    fs::create_directories(scratch.path() / "outside");
    fs::create_directory_symlink("real", scratch.path() / "root/inside");
    fs::create_directory_symlink("../outside", scratch.path() / "root/out");
    fs::create_directory_symlink("/real", scratch.path() / "root/absolute");
    const FileDescriptor root(open((scratch.path() / "root").c_str(), O_PATH | O_DIRECTORY));
    const auto opens = [&](const char* name, Links links) {
        return open_beneath(root.get(), name, O_PATH | O_DIRECTORY, 0, links).valid();
    };
    EXPECT_FALSE(opens("inside", Links::none));
    EXPECT_TRUE(opens("inside", Links::inside));
    EXPECT_FALSE(opens("out", Links::inside));
    EXPECT_FALSE(opens("absolute", Links::inside));
    EXPECT_TRUE(opens("absolute", Links::as_root));
    EXPECT_FALSE(opens("out", Links::as_root));
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

TEST(AllNamesIn, IsAnErrorWhereADirectoryCannotBeRead) {
    const Scratch scratch;
    fs::create_directory(scratch.path() / "there");
    const FileDescriptor open(::open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto names = all_names_in(open.get(), "a share");
    ASSERT_TRUE(names);
    EXPECT_THAT(*names, testing::UnorderedElementsAre(".", "..", "there"));
    // What a hung file server or a mode does to a directory, root gets from a closed descriptor.
    const auto unread = all_names_in(-1, "a share");
    ASSERT_FALSE(unread);
    EXPECT_EQ(unread.error().where, "a share");
    EXPECT_TRUE(names_in(-1).empty());
}

}  // namespace
