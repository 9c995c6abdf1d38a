// SPDX-License-Identifier: Apache-2.0
#include "messages/matching.hpp"

#include <gtest/gtest.h>

namespace {

using mpi_bridge::Matching;
using mpi_bridge::MessageAddress;

MessageAddress address(int channel, std::int64_t tag) {
    MessageAddress made;
    made.channel[0] = static_cast<std::byte>(channel);
    made.tag = tag;
    return made;
}

// Breaks when a message is given to a receive of another channel, tag or rank, or out of turn.
TEST(Matching, GivesEachMessageToTheOldestReceiveThatFits) {
    Matching matching;
    EXPECT_FALSE(matching.post({1, 3, address(0, 5)}));
    EXPECT_FALSE(matching.post({2, Matching::any_rank, address(0, 5)}));
    EXPECT_FALSE(matching.post({3, 3, address(1, 5)}));
    EXPECT_FALSE(matching.hear({3, 10, address(0, 6), 8}));
    EXPECT_FALSE(matching.hear({4, 11, address(1, 5), 8}));
    EXPECT_EQ(matching.hear({3, 12, address(0, 5), 8})->id, 1);
    EXPECT_EQ(matching.hear({4, 13, address(0, 5), 8})->id, 2);
    EXPECT_FALSE(matching.hear({4, 14, address(0, 5), 8}));
    EXPECT_EQ(matching.hear({3, 15, address(1, 5), 8})->id, 3);
}

TEST(Matching, GivesEachReceiveTheOldestMessageThatFits) {
    Matching matching;
    EXPECT_FALSE(matching.hear({2, 1, address(0, 0), 8}));
    EXPECT_FALSE(matching.hear({1, 2, address(0, 0), 8}));
    EXPECT_FALSE(matching.hear({1, 3, address(0, 0), 8}));
    EXPECT_EQ(matching.post({1, 1, address(0, 0)})->serial, 2U);
    EXPECT_EQ(matching.post({2, Matching::any_rank, address(0, 0)})->from, 2);
    EXPECT_EQ(matching.post({3, Matching::any_rank, address(0, 0)})->serial, 3U);
    EXPECT_FALSE(matching.post({4, Matching::any_rank, address(0, 0)}));
}

TEST(Matching, ForgetsAReceiveThatIsWithdrawn) {
    Matching matching;
    EXPECT_FALSE(matching.post({1, 0, address(0, 0)}));
    EXPECT_TRUE(matching.withdraw(1));
    EXPECT_FALSE(matching.withdraw(1));
    EXPECT_FALSE(matching.hear({0, 1, address(0, 0), 8}));
}

TEST(Matching, SaysOfAnOfferThatItWasGivenUp) {
    Matching matching;
    EXPECT_FALSE(matching.hear({1, 7, address(0, 0), 1}));
    EXPECT_FALSE(matching.hear({2, 7, address(0, 0), 1}));
    matching.give_up(1, 7);
    EXPECT_TRUE(matching.post({1, Matching::any_rank, address(0, 0)})->withdrawn);
    EXPECT_FALSE(matching.post({2, Matching::any_rank, address(0, 0)})->withdrawn);
}

}  // namespace
