// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/node_root.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/node_name.hpp"
#include "spank/protocol.h"
#include "tests/unit/base/scratch.hpp"

namespace {

namespace fs = std::filesystem;
using batchai::node::find_node_roots;
using batchai::node::node_root_here;
using batchai::node::open_node_root;

std::string own_name() {
    return "batchai-" + std::to_string(geteuid());
}

class NodeRoot : public testing::Test {
  protected:
    // What somebody else can do with the name: a link stands for all of it, as it needs no root.
    void plant() const { fs::create_symlink("/", planned); }

    Scratch scratch;
    fs::path planned = scratch.path() / own_name();
};

TEST_F(NodeRoot, IsThePlannedDirectoryMadePrivate) {
    const auto root = open_node_root(planned.string());
    ASSERT_TRUE(root) << root.error().text();
    EXPECT_EQ(root->path, planned.string());
    struct stat status {};
    ASSERT_EQ(stat(planned.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777U, 0700U);
}

TEST_F(NodeRoot, PassesOverWhatSomebodyElseMade) {
    plant();
    const auto root = open_node_root(planned.string());
    ASSERT_TRUE(root) << root.error().text();
    EXPECT_EQ(fs::path(root->path).parent_path(), scratch.path());
    EXPECT_TRUE(root->path.starts_with(planned.string() + "."));
    const auto again = open_node_root(planned.string());
    ASSERT_TRUE(again);
    EXPECT_EQ(again->path, root->path);
}

TEST_F(NodeRoot, StaysTheSameWhenThePlantedOneIsGone) {
    plant();
    const auto root = open_node_root(planned.string());
    fs::remove(planned);
    const auto again = open_node_root(planned.string());
    ASSERT_TRUE(root && again);
    EXPECT_EQ(again->path, root->path);
}

TEST_F(NodeRoot, IsFoundForTheCleanUpByItsOwner) {
    plant();
    const auto root = open_node_root(planned.string());
    ASSERT_TRUE(root);
    fs::create_directory(scratch.path() / (own_name() + "0"));
    fs::create_directory(planned.string() + ".open");
    ASSERT_EQ(chmod((planned.string() + ".open").c_str(), 0777), 0);
    const auto roots = find_node_roots(scratch.path().string());
    ASSERT_EQ(roots.size(), 1U);
    EXPECT_EQ(roots.front().path, root->path);
}

// Nodes of a host, whose slurm.conf is that of the test.
class NodesOfAHost : public NodeRoot {
  protected:
    NodesOfAHost() {
        spool_is("/var/spool/slurmd.%n");
        setenv("SLURM_CONF", conf.c_str(), 1);
        unsetenv(BATCHAI_NODE_VARIABLE);
    }
    ~NodesOfAHost() override {
        unsetenv("SLURM_CONF");
        unsetenv("SLURMD_NODENAME");
    }

    std::string opened_on(const std::string& node) const {
        setenv("SLURMD_NODENAME", node.c_str(), 1);
        const auto root = open_node_root(planned.string());
        return root ? root->path : root.error().text();
    }

    void spool_is(const std::string& path) const {
        std::ofstream(conf) << "SlurmdSpoolDir=" << path << '\n';
    }

    fs::path conf = scratch.path() / "slurm.conf";
};

// Breaks when the clean-up after a job on one node removes what the job has on another node of the
// host.
TEST_F(NodesOfAHost, HaveDirectoriesOfTheirOwn) {
    EXPECT_EQ(opened_on(batchai::node::host_name()), planned.string());
    EXPECT_EQ(opened_on("n3"), planned.string() + "-n3");
    EXPECT_EQ(opened_on("n2"), planned.string() + "-n2");
    EXPECT_EQ(node_root_here(planned.string() + "-n2"), planned.string() + "-n2");
    for (const std::string node : {"n2", "n3"}) {
        setenv("SLURMD_NODENAME", node.c_str(), 1);
        const auto roots = find_node_roots(scratch.path().string());
        ASSERT_EQ(roots.size(), 1U);
        EXPECT_EQ(roots.front().path, planned.string() + '-' + node);
    }
}

TEST_F(NodesOfAHost, HaveTheUsualDirectoryIfThereIsOnlyOne) {
    spool_is("/var/spool/slurmd");
    EXPECT_EQ(opened_on("n2"), planned.string());
}

}  // namespace
