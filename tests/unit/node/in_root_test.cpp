// SPDX-License-Identifier: GPL-2.0-or-later
// Paths in a root that its maker wants to lead outside.
#include "node/rootfs/in_root.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/unit/base/scratch.hpp"

namespace batchai::node {
namespace {

namespace fs = std::filesystem;

class InRoot : public testing::Test {
  protected:
    InRoot() {
        fs::create_directories(outside);
        fs::create_directories(inside);
        std::ofstream(outside / "file") << "of the node";
        root.directory = base::FileDescriptor(open(inside.c_str(), O_PATH | O_DIRECTORY));
        root.path = inside;
    }

    static std::string text(const fs::path& path) {
        std::ostringstream out;
        out << std::ifstream(path).rdbuf();
        return out.str();
    }

    Scratch scratch;
    fs::path outside = fs::path(scratch.path()) / "outside";
    fs::path inside = fs::path(scratch.path()) / "inside";
    base::Root root;
};

TEST_F(InRoot, MakesDirectoriesAndFollowsLinksWithinTheRoot) {
    fs::create_directories(inside / "real");
    fs::create_directory_symlink("/real", inside / "etc");
    ASSERT_TRUE(make_directory_in_root(root, "/etc/deep/er"));
    EXPECT_TRUE(fs::is_directory(inside / "real/deep/er"));
    ASSERT_TRUE(make_file_in_root(root, "/etc/file"));
    EXPECT_TRUE(fs::is_regular_file(inside / "real/file"));
}

TEST_F(InRoot, RefusesLinksThatLeadNowhereInside) {
    for (const std::string& target :
         {outside.string(), std::string("../outside"),
          std::string("../../../../..") + outside.string(), std::string("link")}) {
        fs::remove(inside / "link");
        fs::create_symlink(target, inside / "link");
        EXPECT_FALSE(make_directory_in_root(root, "/link/made")) << target;
        EXPECT_FALSE(make_file_in_root(root, "/link/made")) << target;
        EXPECT_FALSE(make_directory_in_root(root, "/link")) << target;
        EXPECT_FALSE(write_in_root(root, "/link/file", "changed")) << target;
    }
    EXPECT_EQ(text(outside / "file"), "of the node");
    EXPECT_EQ(std::distance(fs::directory_iterator(outside), {}), 1);
}

TEST_F(InRoot, CannotBeLeftByDotDot) {
    ASSERT_TRUE(make_directory_in_root(root, "/../../outside"));
    EXPECT_TRUE(fs::is_directory(inside / "outside"));
    EXPECT_FALSE(read_in_root(root, "/../../outside/file"));
}

TEST_F(InRoot, ReplacesALinkInsteadOfWritingThroughIt) {
    fs::create_symlink(outside / "file", inside / "passwd");
    fs::create_hard_link(outside / "file", inside / "group");
    ASSERT_TRUE(write_in_root(root, "/passwd", "new"));
    ASSERT_TRUE(write_in_root(root, "/group", "new"));
    EXPECT_EQ(text(outside / "file"), "of the node");
    EXPECT_EQ(text(inside / "passwd"), "new");
    EXPECT_FALSE(fs::is_symlink(inside / "passwd"));
    EXPECT_EQ(std::distance(fs::directory_iterator(inside), {}), 2) << "a temporary file is left";
}

TEST_F(InRoot, DoesNotReadPipesAndLinksThatLeadOut) {
    ASSERT_EQ(mkfifo((inside / "pipe").c_str(), 0600), 0);
    fs::create_symlink(outside / "file", inside / "link");
    EXPECT_FALSE(read_in_root(root, "/pipe"));
    EXPECT_FALSE(read_in_root(root, "/link"));
    EXPECT_FALSE(read_in_root(root, "/missing"));
    std::ofstream(inside / "file") << "abcdef";
    EXPECT_EQ(read_in_root(root, "/file", 4), "abcd");
}

}  // namespace
}  // namespace batchai::node
