// SPDX-License-Identifier: GPL-2.0-or-later
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "run/logs.hpp"
#include "scratch.hpp"

namespace batchai::run {

namespace fs = std::filesystem;
using testing::HasSubstr;

class LogDirectoryTest : public ScratchTest {
  protected:
    void SetUp() override {
        ScratchTest::SetUp();
        // As a site's directory for everybody's logs.
        fs::create_directory(path("shared"));
        fs::permissions(path("shared"), fs::perms::all | fs::perms::sticky_bit);
        fs::create_directory(path("elsewhere"));
    }
};

TEST_F(LogDirectoryTest, IsMadeWithWhatIsMissingAboveIt) {
    LogDirectory logs(path("shared/a/b"));
    ASSERT_TRUE(logs.make());
    logs.append_text("x.txt", "one\n");
    logs.append_text("x.txt", "two\n");
    EXPECT_EQ(text_of("shared/a/b/x.txt"), "one\ntwo\n");
    LogDirectory again(path("shared/a/b"));
    EXPECT_TRUE(again.make());
}

TEST_F(LogDirectoryTest, FollowsNoLinkWhereOthersCanWrite) {
    fs::create_directory_symlink(path("elsewhere"), path("shared/a"));
    LogDirectory logs(path("shared/a/b"));
    const auto made = logs.make();
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().where, path("shared/a"));
    EXPECT_TRUE(fs::is_empty(path("elsewhere")));
}

TEST_F(LogDirectoryTest, FollowsTheUsersOwnLinkInTheUsersOwnDirectory) {
    fs::create_directory_symlink(path("elsewhere"), path("own"));
    LogDirectory logs(path("own/b"));
    ASSERT_TRUE(logs.make());
    EXPECT_TRUE(fs::is_directory(path("elsewhere/b")));
}

TEST_F(LogDirectoryTest, IsNotOneToWhichOthersCanWrite) {
    LogDirectory logs(path("shared"));
    const auto made = logs.make();
    ASSERT_FALSE(made);
    EXPECT_THAT(made.error().what, HasSubstr("1777"));
    EXPECT_FALSE(logs.append("x.txt"));
}

TEST_F(LogDirectoryTest, AppendsThroughNoLinkAndToNoFifo) {
    LogDirectory logs(path("shared/a"));
    ASSERT_TRUE(logs.make());
    append("elsewhere/notes", "mine\n");
    fs::create_symlink(path("elsewhere/notes"), path("shared/a/link.txt"));
    logs.append_text("link.txt", "not there\n");
    EXPECT_EQ(text_of("elsewhere/notes"), "mine\n");
    ASSERT_EQ(mkfifo(path("shared/a/fifo.txt").c_str(), 0666), 0);
    EXPECT_FALSE(logs.append("fifo.txt"));
}

TEST_F(LogDirectoryTest, StaysTheSameWhateverBecomesOfItsPath) {
    LogDirectory logs(path("shared/a"));
    ASSERT_TRUE(logs.make());
    fs::rename(path("shared/a"), path("shared/moved"));
    fs::create_directory_symlink(path("elsewhere"), path("shared/a"));
    logs.append_text("x.txt", "still here\n");
    EXPECT_EQ(text_of("shared/moved/x.txt"), "still here\n");
    ASSERT_TRUE(logs.make_directory("ranks/1"));
    logs.append_text("ranks/1/x.txt", "here too\n");
    EXPECT_EQ(text_of("shared/moved/ranks/1/x.txt"), "here too\n");
    EXPECT_TRUE(fs::is_empty(path("elsewhere")));
}

TEST_F(LogDirectoryTest, MakesDirectoriesThroughNoLink) {
    LogDirectory logs(path("shared/a"));
    ASSERT_TRUE(logs.make());
    ASSERT_TRUE(logs.make_directory("ranks/1"));
    ASSERT_TRUE(logs.make_directory("ranks/1")) << "for a second run in the same allocation";
    fs::create_directories(path("elsewhere"));
    fs::create_directory_symlink(path("elsewhere"), path("shared/a/led"));
    EXPECT_FALSE(logs.make_directory("led/1"));
    fs::create_directory(path("shared/a/open"));
    fs::permissions(path("shared/a/open"), fs::perms::all);
    const auto made = logs.make_directory("open/1");
    ASSERT_FALSE(made);
    EXPECT_THAT(made.error().what, HasSubstr("can be written to by others"));
    EXPECT_TRUE(fs::is_empty(path("elsewhere")));
}

}  // namespace batchai::run
