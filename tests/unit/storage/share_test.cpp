// SPDX-License-Identifier: GPL-2.0-or-later
#include "storage/share.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/base/scratch.hpp"

namespace batchai::storage {
namespace {

namespace fs = std::filesystem;
using base::ExitCode;
using testing::ElementsAre;

TEST(CleanPath, LeavesOutWhatMeansNothingAndRefusesWhatLeads) {
    EXPECT_EQ(clean_path("/a//b/./c/").value(), "a/b/c");
    EXPECT_EQ(clean_path("").value(), "");
    EXPECT_EQ(clean_path("/").value(), "");
    EXPECT_EQ(clean_path("..a/b..").value(), "..a/b..");
    for (const char* path : {"..", "a/../b", "../../etc/passwd", "a/.."}) {
        const auto cleaned = clean_path(path);
        ASSERT_FALSE(cleaned) << path;
        EXPECT_EQ(cleaned.error().exit_code, ExitCode::usage);
    }
    EXPECT_FALSE(clean_path(std::string_view("a\0b", 3)));
}

// A share with a directory, two files, and links that lead out of it and within it.
class OfShare : public testing::Test {
  protected:
    void SetUp() override {
        fs::create_directories(scratch_.path() / "share/dir/deep");
        fs::create_directories(scratch_.path() / "outside");
        write("share/a.txt", "hello");
        write("share/dir/b.bin", "12345678");
        write("outside/secret", "secret");
        fs::create_symlink("../outside", scratch_.path() / "share/out");
        fs::create_symlink(scratch_.path() / "outside/secret", scratch_.path() / "share/absolute");
        fs::create_symlink("dir", scratch_.path() / "share/inside");
        fs::create_symlink("a.txt", scratch_.path() / "share/alias");
    }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(scratch_.path() / name) << text;
    }
    [[nodiscard]] Share share() const {
        return Share::open((scratch_.path() / "share").string(), "share").value();
    }

    Scratch scratch_;
};

std::vector<std::string> names(const std::vector<Entry>& entries) {
    std::vector<std::string> out;
    for (const auto& entry : entries)
        out.push_back(entry.name);
    return out;
}

TEST_F(OfShare, ListsOneLevelAndFollowsALinkOnlyWithinIt) {
    const auto entries = share().list("").value();
    EXPECT_THAT(names(entries), ElementsAre("a.txt", "absolute", "alias", "dir", "inside", "out"));
    EXPECT_EQ(entries[0].kind, EntryKind::file);
    EXPECT_EQ(entries[0].size, 5);
    EXPECT_EQ(entries[1].kind, EntryKind::other);
    EXPECT_EQ(entries[2].kind, EntryKind::file);
    EXPECT_EQ(entries[3].kind, EntryKind::directory);
    EXPECT_EQ(entries[4].kind, EntryKind::directory);
    EXPECT_EQ(entries[5].kind, EntryKind::other) << "a link that leads out is not a directory";
}

TEST_F(OfShare, FilesBelowLeavesOutLinks) {
    EXPECT_THAT(names(share().files_below("").value()), ElementsAre("a.txt", "dir/b.bin"));
    EXPECT_THAT(names(share().files_below("inside").value()), ElementsAre("b.bin"));
}

TEST_F(OfShare, OpensNothingOutsideOfIt) {
    for (const char* path : {"out/secret", "absolute", "out"}) {
        EXPECT_FALSE(share().open_file(path)) << path;
        const auto found = share().examine(path);
        ASSERT_FALSE(found) << path;
        EXPECT_NE(found.error().what.find("leaves the share"), std::string::npos) << path;
    }
    EXPECT_FALSE(share().list("out"));
    EXPECT_TRUE(share().open_file("inside/b.bin"));
    EXPECT_TRUE(share().open_file("alias"));
}

TEST_F(OfShare, WritesAndRemovesNothingOutsideOfIt) {
    const base::HeldSignals signals{SIGUSR1};
    const Copying copying{.progress = {}, .signals = signals};
    const auto source = open_source((scratch_.path() / "share/a.txt").string());
    ASSERT_TRUE(source);
    EXPECT_FALSE(share().put(*source, "out/new", copying));
    EXPECT_FALSE(share().make_directory("out/new"));
    EXPECT_FALSE(share().make_directories("out/new/deep"));
    EXPECT_FALSE(share().remove_file("out/secret"));
    // The link itself is what has the name.
    EXPECT_TRUE(share().put(*source, "absolute", copying));
    EXPECT_TRUE(share().remove_file("out"));
    EXPECT_EQ(base::read_file(scratch_.path() / "outside/secret").value(), "secret");
    EXPECT_THAT(names(share().list("").value()),
                ElementsAre("a.txt", "absolute", "alias", "dir", "inside"));
}

TEST_F(OfShare, MakesADirectoryOnlyInOneThatExists) {
    EXPECT_EQ(share().make_directory("new").value(), true);
    EXPECT_EQ(share().make_directory("new").value(), false);
    EXPECT_EQ(share().make_directory("none/new").error().exit_code, ExitCode::not_found);
    EXPECT_EQ(share().make_directory("a.txt").error().exit_code, ExitCode::refused);
    ASSERT_TRUE(share().make_directories("x/y/z"));
    EXPECT_TRUE(fs::is_directory(scratch_.path() / "share/x/y/z"));
}

TEST_F(OfShare, RemovesAnEmptyDirectoryAndNoOther) {
    const auto removed = share().remove_directory("dir");
    ASSERT_FALSE(removed);
    EXPECT_EQ(removed.error().what, "The specified directory is not empty.");
    EXPECT_TRUE(share().remove_directory("dir/deep"));
    EXPECT_EQ(share().remove_directory("none").error().exit_code, ExitCode::not_found);
    EXPECT_FALSE(share().remove_file("dir"));
}

TEST_F(OfShare, IsNotOpenedThroughALinkOfSomebodyElse) {
    // In a directory to which others can write, a link may be somebody else's.
    fs::create_directory(scratch_.path() / "open");
    fs::permissions(scratch_.path() / "open", fs::perms::all);
    fs::create_symlink(scratch_.path() / "share", scratch_.path() / "open/share");
    EXPECT_FALSE(Share::open((scratch_.path() / "open/share").string(), "share"));
    EXPECT_EQ(Share::open((scratch_.path() / "none").string(), "x").error().exit_code,
              ExitCode::not_found);
}

}  // namespace
}  // namespace batchai::storage
