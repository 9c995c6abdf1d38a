// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/text.hpp"

#include <array>

#include <gtest/gtest.h>

#include "base/ids.hpp"

namespace batchai::base {

TEST(EditDistance, CountsASwapOfNeighboursAsOne) {
    EXPECT_EQ(edit_distance("nodeCount", "nodeCuont"), 1U);
    EXPECT_EQ(edit_distance("nodeCount", "nodeCout"), 1U);
    EXPECT_EQ(edit_distance("", "abc"), 3U);
}

TEST(Nearest, FindsTheLikelyTypoAndNothingElse) {
    const std::array<std::string_view, 3> names{"nodeCount", "cluster", "secrets"};
    EXPECT_EQ(nearest("nodecout", names), "nodeCount");
    EXPECT_EQ(nearest("banana", names), std::nullopt);
}

TEST(ShellQuote, LeavesSafeWordsAndProtectsTheRest) {
    EXPECT_EQ(shell_quote("a/b-c.txt"), "a/b-c.txt");
    EXPECT_EQ(shell_quote("it's $HOME"), "'it'\\''s $HOME'");
    EXPECT_EQ(shell_quote(""), "''");
}

TEST(NumberIn, TakesAWholeTextThatFits) {
    EXPECT_EQ(number_in<int>("-12"), -12);
    EXPECT_EQ(number_in<unsigned>("17", 8), 15U);
    for (const char* text : {"", " 1", "1 ", "+1", "1x", "x", "99999999999999999999"})
        EXPECT_EQ(number_in<int>(text), std::nullopt) << text;
}

TEST(NumberRanges, AreTheShortestText) {
    EXPECT_EQ(batchai::base::number_ranges({}), "");
    EXPECT_EQ(batchai::base::number_ranges({1, 3, 5, 6, 7}), "1,3,5-7");
    EXPECT_EQ(batchai::base::number_ranges({0, 1, 4}, ", "), "0-1, 4");
}

TEST(Split, KeepsEmptyFields) {
    EXPECT_EQ(split("a||b", '|'), (std::vector<std::string_view>{"a", "", "b"}));
    EXPECT_EQ(split("", '|').size(), 1U);
}

TEST(Sha256, MatchesTheStandardsExample) {
    EXPECT_EQ(sha256_hex("abc"),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(RandomUuid, IsVersionFourAndNeverTheSame) {
    const std::string uuid = random_uuid();
    ASSERT_EQ(uuid.size(), 36U);
    EXPECT_EQ(uuid[14], '4');
    EXPECT_NE(uuid, random_uuid());
}

}  // namespace batchai::base
