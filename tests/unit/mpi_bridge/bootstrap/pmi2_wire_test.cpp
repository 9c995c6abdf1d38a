// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/pmi2_wire.hpp"

#include <random>

#include <gtest/gtest.h>

namespace {

using namespace mpi_bridge::pmi2;
using Hosts = std::vector<std::vector<int>>;

TEST(Pmi2Wire, ARequestHasItsLengthBeforeIt) {
    EXPECT_EQ(request("kvs-fence"), "    14cmd=kvs-fence;");
    EXPECT_EQ(request("kvs-get", {{"key", "a"}}), "    18cmd=kvs-get;key=a;");
}

TEST(Pmi2Wire, LengthsArePaddedOnEitherSide) {
    EXPECT_EQ(*length_in("    14"), 14U);
    EXPECT_EQ(*length_in("14    "), 14U);
    for (const char* wrong : {"      ", "-1    ", "1 4   ", "14x   ", "9999999"})
        EXPECT_FALSE(length_in(wrong)) << wrong;
}

TEST(Pmi2Wire, AnAnswerIsThatOfItsRequest) {
    const auto read = answer("cmd=kvs-get-response;rc=0;found=TRUE;value=x=y;", "kvs-get");
    ASSERT_TRUE(read);
    EXPECT_EQ(read->value("value"), "x=y");
    EXPECT_EQ(read->value("other"), "");
    EXPECT_FALSE(answer("cmd=kvs-get-response;rc=0;", "kvs-put"));
    EXPECT_FALSE(answer("cmd=kvs-fence-response;rc=-1;errmsg=failed;", "kvs-fence"));
    EXPECT_NE(answer("cmd=kvs-fence-response;rc=-1;errmsg=tree;", "kvs-fence")
                  .error()
                  .text.find("errmsg=tree"),
              std::string::npos);
    for (const char* odd : {"", "cmd", "cmd=kvs-get-response", "cmd=kvs-get-response;rc;", ";"})
        EXPECT_FALSE(answer(odd, "kvs-get")) << odd;
}

TEST(Pmi2Wire, NumbersHaveBounds) {
    const auto read = answer("cmd=fullinit-response;rc=0;rank=3;size=4;odd=4x;", "fullinit");
    EXPECT_EQ(*read->number("rank", 3), 3);
    EXPECT_FALSE(read->number("size", 3));
    EXPECT_FALSE(read->number("odd", 9));
    EXPECT_FALSE(read->number("none", 9));
}

TEST(Pmi2Wire, TheMapDealsRanksOutInBlocksAndInTurn) {
    EXPECT_EQ(*hosts_in("(vector,(0,4,1))", 4), (Hosts{{0}, {1}, {2}, {3}}));
    EXPECT_EQ(*hosts_in("(vector,(0,2,2))", 4), (Hosts{{0, 1}, {2, 3}}));
    EXPECT_EQ(*hosts_in("(vector,(0,1,2),(1,3,1))", 5), (Hosts{{0, 1}, {2}, {3}, {4}}));
    // Cyclic: a block for each turn, or one that starts again.
    EXPECT_EQ(*hosts_in("(vector,(0,2,1),(0,2,1))", 4), (Hosts{{0, 2}, {1, 3}}));
    EXPECT_EQ(*hosts_in("(vector,(0,2,1))", 5), (Hosts{{0, 2, 4}, {1, 3}}));
}

// Breaks when the map of a step whose tasks the user has placed is believed: it gives each rank a
// host of its own.
TEST(Pmi2Wire, TheMapHasToAgreeWithTheTasksOfTheNode) {
    const Hosts hosts{{0, 2}, {1, 3}};
    EXPECT_TRUE(check_host(hosts, 2, "0,2"));
    EXPECT_TRUE(check_host(hosts, 2, "2,0"));
    EXPECT_TRUE(check_host(hosts, 1, "1,3"));
    EXPECT_TRUE(check_host(hosts, 1, ""));
    for (const char* others : {"0,2", "1", "1,2,3"}) {
        const auto done = check_host(hosts, 1, others);
        ASSERT_FALSE(done) << others;
        EXPECT_NE(done.error().text.find("--distribution=arbitrary"), std::string::npos);
    }
}

TEST(Pmi2Wire, AMapThatIsNoneIsRefused) {
    for (const char* odd :
         {"", "(vector)", "(vector,(0,4,1)", "(vector,(0,4))", "(vector,(0,4,1,1))",
          "(vector,(0,0,1))", "(vector,(0,4,0))", "(vector,(-1,4,1))", "(vector,(1,4,1))",
          "(vector,(0,5,1))", "(vector,(0,2000000000,2000000000))", "(vector,(0,4,1)) ",
          "(matrix,(0,4,1))"})
        EXPECT_FALSE(hosts_in(odd, 4)) << odd;
}

TEST(Pmi2Wire, BytesOfAnyLengthComeBack) {
    std::minstd_rand random(7);
    for (const std::size_t length : {0U, 1U, 479U, 480U, 481U, 5000U}) {
        std::vector<std::byte> bytes(length);
        for (auto& byte : bytes)
            byte = static_cast<std::byte>(random() >> 8U);
        const auto pieces = pieces_of(bytes);
        EXPECT_EQ(*pieces_after(pieces.front()), pieces.size());
        for (const auto& piece : pieces) {
            EXPECT_LT(piece.size(), longest_value);
            EXPECT_EQ(piece.find(';'), std::string::npos);
        }
        EXPECT_EQ(*bytes_of(pieces), bytes) << length;
    }
}

TEST(Pmi2Wire, ValuesThatNoRankPublishedAreRefused) {
    for (const char* odd : {"", "0 ", "-1 ", "x ff", "ff", "99999 ff"})
        EXPECT_FALSE(pieces_after(odd)) << odd;
    EXPECT_FALSE(bytes_of({"1 f"}));
    EXPECT_FALSE(bytes_of({"1 fx"}));
}

}  // namespace
