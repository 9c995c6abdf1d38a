// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/rendezvous.hpp"

#include <filesystem>
#include <fstream>
#include <future>

#include <gtest/gtest.h>

#include "tests/unit/base/scratch.hpp"

namespace batchai::node {

namespace {

using std::chrono::milliseconds;

RendezvousRequest of_node(const Scratch& scratch, int node) {
    return {(scratch.path() / "made").string(), "7.0.1", node, 3};
}

}  // namespace

TEST(Rendezvous, GivesAllNodesThePortThatTheFirstHolds) {
    const Scratch scratch;
    auto second = std::async(std::launch::async,
                             [&] { return meet(of_node(scratch, 1), milliseconds(20000)); });
    const auto first = meet(of_node(scratch, 0), milliseconds(0));
    const auto late = meet(of_node(scratch, 2), milliseconds(20000));
    const auto early = second.get();
    ASSERT_TRUE(first && late && early);
    EXPECT_TRUE(first->reserved);
    EXPECT_FALSE(late->reserved);
    EXPECT_EQ(first->port, first->reserved->number());
    for (const auto* other : {&*late, &*early}) {
        EXPECT_EQ(other->port, first->port);
        EXPECT_EQ(other->address, first->address);
    }
}

TEST(Rendezvous, FailsAfterTheDeadlineWithoutAFirstNode) {
    const Scratch scratch;
    const auto made = meet(of_node(scratch, 1), milliseconds(30));
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().where, rendezvous_file(of_node(scratch, 1)));
}

TEST(Rendezvous, DoesNotTakeHalfAFileForAWholeOne) {
    const Scratch scratch;
    const RendezvousRequest request = of_node(scratch, 1);
    std::filesystem::create_directories(request.directory);
    for (const char* text : {"10.0.0.4 12", "10.0.0.4\n", "10.0.0.4 x\n", "10.0.0.4 0\n", " 5\n"}) {
        std::ofstream(rendezvous_file(request)) << text;
        EXPECT_FALSE(meet(request, milliseconds(1))) << text;
    }
}

}  // namespace batchai::node
