// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/beneath.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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
using batchai::base::make_own_directory;
using batchai::base::names_in;
using batchai::base::open_beneath;
using batchai::base::open_guarded_directory;
using batchai::base::open_private_directory;
using batchai::base::read_private_file_guarded;
using batchai::base::relative_to;
using testing::HasSubstr;

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

// Breaks when only the link itself is looked at, and the kernel follows all that come behind it.
TEST_F(GuardedDirectory, IsNotWhereALinkBehindTheUsersOwnLinkLeads) {
    fs::create_directory_symlink(path("elsewhere"), path("shared/planted"));
    fs::create_directory_symlink(path("shared/planted"), path("own"));
    fs::create_directory_symlink("shared/planted/a", path("relative"));
    for (const char* name : {"own", "own/a", "relative"}) {
        for (const auto& found :
             {make_guarded_directory(path(name)), open_guarded_directory(path(name))}) {
            ASSERT_FALSE(found) << name;
            EXPECT_EQ(found.error().where, path("shared/planted"));
            EXPECT_THAT(found.error().what, HasSubstr("others can write"));
        }
    }
    EXPECT_TRUE(fs::is_empty(path("elsewhere")));
}

TEST_F(GuardedDirectory, IsWhereSeveralLinksOfTheUsersLead) {
    fs::create_directories(path("private/deep"));
    fs::create_directory_symlink("../elsewhere/./", path("private/up"));
    fs::create_directory_symlink(path("private/deep/../up"), path("own"));
    const auto made = make_guarded_directory(path("own/a"));
    ASSERT_TRUE(made);
    EXPECT_EQ(made->path, path("own/a"));
    EXPECT_TRUE(fs::is_directory(path("elsewhere/a")));
}

TEST_F(GuardedDirectory, IsNotMadeWhereALinkLeads) {
    fs::create_directory_symlink(path("elsewhere/missing"), path("own"));
    const auto made = make_guarded_directory(path("own/a"));
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().where, path("elsewhere/missing"));
    EXPECT_TRUE(fs::is_empty(path("elsewhere")));
}

TEST_F(GuardedDirectory, IsNotBehindLinksWithoutEnd) {
    fs::create_directory_symlink("b", path("a"));
    fs::create_directory_symlink("a", path("b"));
    const auto made = make_guarded_directory(path("a"));
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().what, std::strerror(ELOOP));
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

// Breaks when the kernel's EAGAIN is taken for an answer: with somebody renaming, up to every
// second look-up of a path with ".." has it.
TEST(OpenBeneath, OpensAPathWithParentsWhileSomebodyRenames) {
    const Scratch scratch;
    fs::create_directories(scratch.path() / "root/a/b/c");
    fs::create_directory_symlink("../../../a/b/../b/c/../../b", scratch.path() / "root/a/b/link");
    std::ofstream(scratch.path() / "0") << "x";
    std::atomic<bool> over = false;
    std::thread renamer([&] {
        const std::string one = (scratch.path() / "0").string();
        const std::string other = (scratch.path() / "1").string();
        while (!over) {
            static_cast<void>(std::rename(one.c_str(), other.c_str()));
            static_cast<void>(std::rename(other.c_str(), one.c_str()));
        }
    });
    const FileDescriptor root(open((scratch.path() / "root").c_str(), O_PATH | O_DIRECTORY));
    int failed = 0;
    for (int i = 0; i < 5000; ++i) {
        if (!open_beneath(root.get(), "a/b/link", O_PATH | O_DIRECTORY, 0, Links::as_root).valid())
            ++failed;
    }
    over = true;
    renamer.join();
    EXPECT_EQ(failed, 0);
}

// Breaks when a kernel or container runtime that does not know openat2 is taken for a path that may
// not be opened.
TEST(GuardedDirectoryWithoutOpenat2, NamesTheSystemCall) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        std::array<sock_filter, 4> program{
            {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
             BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
             BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
             BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
        const sock_fprog filter{program.size(), program.data()};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
            _exit(2);
        const auto opened = batchai::base::open_guarded_directory("/usr");
        _exit(!opened && opened.error().what.find("openat2") != std::string::npos ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST(OpenPrivateDirectory, RefusesALink) {
    const Scratch scratch;
    fs::create_directory(scratch.path() / "real");
    fs::create_directory_symlink(scratch.path() / "real", scratch.path() / "link");
    EXPECT_FALSE(open_private_directory((scratch.path() / "link").string()));
}

TEST(MakeOwnDirectory, TakesOneThatIsThereOnlyIfItIsOurs) {
    const Scratch scratch;
    const auto path = scratch.path() / "made";
    EXPECT_TRUE(make_own_directory(path.string()));
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
    EXPECT_TRUE(make_own_directory(path.string()));
    ASSERT_EQ(chmod(path.c_str(), 0777), 0);
    EXPECT_FALSE(make_own_directory(path.string()));
    EXPECT_FALSE(make_own_directory((scratch.path() / "missing" / "made").string()));
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
