// SPDX-License-Identifier: GPL-2.0-or-later
#include "storage/pattern.hpp"

#include <string>

#include <gtest/gtest.h>

namespace {

using batchai::storage::matches;

TEST(Pattern, AStarStandsForAnyTextWithItsSlashes) {
    EXPECT_TRUE(matches("*.csv", "a.csv"));
    EXPECT_TRUE(matches("*.csv", "deep/below/a.csv"));
    EXPECT_TRUE(matches("train/*", "train/a/b"));
    EXPECT_TRUE(matches("*", ""));
    EXPECT_FALSE(matches("*.csv", "a.csv.gz"));
    EXPECT_FALSE(matches("train/*", "test/train/a"));
    EXPECT_FALSE(matches("", "a"));
    EXPECT_TRUE(matches("", ""));
}

TEST(Pattern, AQuestionMarkStandsForOneByteAndASetForOneOfIts) {
    EXPECT_TRUE(matches("part-?.bin", "part-7.bin"));
    EXPECT_FALSE(matches("part-?.bin", "part-17.bin"));
    EXPECT_TRUE(matches("part-[0-3].bin", "part-2.bin"));
    EXPECT_FALSE(matches("part-[0-3].bin", "part-4.bin"));
    EXPECT_TRUE(matches("part-[!0-3].bin", "part-4.bin"));
    EXPECT_TRUE(matches("[]]x", "]x"));
    EXPECT_TRUE(matches("[a-]", "-"));
    EXPECT_TRUE(matches("a[b", "a[b")) << "a set that is not closed";
}

TEST(Pattern, GoesBackToTheLastStar) {
    EXPECT_TRUE(matches("*ab*abc", "xabxababc"));
    EXPECT_FALSE(matches("*ab*abc", "xabxabab"));
}

// An implementation that tries all ways would not end.
TEST(Pattern, TakesNoTimeForAPatternOfManyStars) {
    std::string pattern;
    for (int i = 0; i < 500; ++i)
        pattern += "*a";
    EXPECT_FALSE(matches(pattern + "b", std::string(5000, 'a')));
}

}  // namespace
