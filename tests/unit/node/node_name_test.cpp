// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/node_name.hpp"

#include <array>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "spank/protocol.h"

namespace batchai::node {

namespace {

class NodeName : public testing::Test {
  protected:
    NodeName() {
        unsetenv(BATCHAI_NODE_VARIABLE);
        unsetenv("SLURMD_NODENAME");
    }
    ~NodeName() override {
        unsetenv(BATCHAI_NODE_VARIABLE);
        unsetenv("SLURMD_NODENAME");
    }
};

// Breaks when a node is called by its host's name, under which nothing else knows it.
TEST_F(NodeName, IsSlurmsAndNotTheHosts) {
    setenv("SLURMD_NODENAME", "gpu7", 1);
    EXPECT_EQ(node_name(), "gpu7");
    // A step may have been started on another node, whose name it then inherits.
    setenv(BATCHAI_NODE_VARIABLE, "2 4 n[1-2,07],x", 1);
    EXPECT_EQ(node_name(), "n07");
}

TEST_F(NodeName, IsTheHostsWhereNobodySaysMore) {
    std::array<char, 256> host{};
    ASSERT_EQ(gethostname(host.data(), host.size() - 1), 0);
    const std::string full(host.data());
    const std::string own = full.substr(0, full.find('.'));
    EXPECT_EQ(node_name(), own);
    setenv("SLURMD_NODENAME", "", 1);
    for (const char* unusable :
         {"", "1", "0 n1", "x 2 n[1-2]", "2 2 n[1-2]", "-1 2 n[1-2]", "0 1 n[1-",
          // Of a step of two programs: the number is of one, the list of both.
          "0 1 n[1-2]"}) {
        setenv(BATCHAI_NODE_VARIABLE, unusable, 1);
        EXPECT_EQ(node_name(), own) << unusable;
    }
}

}  // namespace

}  // namespace batchai::node
