// SPDX-License-Identifier: GPL-2.0-or-later
#include "site/policy.hpp"

#include <string>

#include <gtest/gtest.h>

namespace batchai::site {

TEST(Pattern, StarStandsForAnyText) {
    EXPECT_TRUE(matches("docker.io/library/debian:12", "docker.io/library/*"));
    EXPECT_TRUE(matches("docker.io/library/debian:12", "*debian*"));
    EXPECT_TRUE(matches("", "*"));
    EXPECT_TRUE(matches("a", "a"));
    EXPECT_TRUE(matches("aXbXc", "a*b*c"));
    EXPECT_FALSE(matches("evil.example/docker.io/library/x", "docker.io/library/*"));
    EXPECT_FALSE(matches("a", ""));
    EXPECT_FALSE(matches("", "a"));
    EXPECT_FALSE(matches("abc", "a*b"));
    EXPECT_FALSE(matches("a.c", "a?c"));
}

TEST(Pattern, ManyStarsTakeNoTime) {
    std::string pattern;
    for (int i = 0; i < 50; ++i)
        pattern += "*a";
    EXPECT_FALSE(matches(std::string(4000, 'a'), pattern + "b"));
}

TEST(Limits, OfAUserReplaceThoseOfAllAndOfASizeLowerThem) {
    Policy policy;
    policy.limits = {.nodes = 4, .minutes = 60};
    policy.users["bob"].nodes = 8;
    policy.vm_sizes["BIG"].limits.nodes = 6;
    EXPECT_EQ(limits_for(policy, "ada", ""), (Limits{.nodes = 4, .minutes = 60}));
    EXPECT_EQ(limits_for(policy, "bob", ""), (Limits{.nodes = 8, .minutes = 60}));
    EXPECT_EQ(limits_for(policy, "bob", "BIG"), (Limits{.nodes = 6, .minutes = 60}));
    EXPECT_EQ(limits_for(policy, "ada", "BIG"), (Limits{.nodes = 4, .minutes = 60}));
    EXPECT_EQ(limits_for({}, "ada", "BIG"), Limits{});
}

}  // namespace batchai::site
