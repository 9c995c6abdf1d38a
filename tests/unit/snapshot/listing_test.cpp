// SPDX-License-Identifier: GPL-2.0-or-later
#include "snapshot/listing.hpp"

#include <gtest/gtest.h>

#include "base/text.hpp"

namespace batchai::snapshot {

TEST(ExcludedPaths, MatchNamesWholePathsAndDirectories) {
    EXPECT_TRUE(matches("*.ckpt", "a/b.ckpt", false));
    EXPECT_FALSE(matches("*.ckpt", "a.ckpt/b", false));
    EXPECT_TRUE(matches("data/", "x/data", true));
    EXPECT_FALSE(matches("data/", "x/data", false));
    EXPECT_TRUE(matches("x/*.txt", "x/y/z.txt", false));
    EXPECT_FALSE(matches("x/*.txt", "w/x/z.txt", false));
    EXPECT_TRUE(matches("/runs", "runs", true));
    EXPECT_FALSE(matches("/runs", "a/runs", true));
}

TEST(RelativeLinks, StayInsideOrDoNot) {
    EXPECT_TRUE(stays_inside("a/link", "../b"));
    EXPECT_TRUE(stays_inside("link", "a/../b"));
    EXPECT_FALSE(stays_inside("link", ".."));
    EXPECT_FALSE(stays_inside("a/link", "../../b"));
    // It leads out on the way, where the copy has another neighbour.
    EXPECT_FALSE(stays_inside("a/link", "../../train/a/b"));
}

TEST(RemoteUrls, LoseWhatMayBeAToken) {
    EXPECT_EQ(without_credentials("https://u:p@git.example.org/a/b.git?private_token=x#y"),
              "https://git.example.org/a/b.git");
    EXPECT_EQ(without_credentials("https://token@host"), "https://host");
    EXPECT_EQ(without_credentials("https://a:b@c@host/x@y"), "https://host/x@y");
    EXPECT_EQ(without_credentials("git@host:a/b.git"), "git@host:a/b.git");
    EXPECT_EQ(without_credentials("/srv/git/a"), "/srv/git/a");
}

TEST(Sizes, AreForPeople) {
    EXPECT_EQ(base::size_text(0), "0 B");
    EXPECT_EQ(base::size_text(1023), "1023 B");
    EXPECT_EQ(base::size_text(1536), "1.5 KiB");
    EXPECT_EQ(base::size_text(100 << 20), "100.0 MiB");
}

}  // namespace batchai::snapshot
