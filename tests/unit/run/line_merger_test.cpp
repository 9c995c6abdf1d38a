// SPDX-License-Identifier: GPL-2.0-or-later
#include <filesystem>

#include <gtest/gtest.h>

#include "run/logs.hpp"
#include "scratch.hpp"

namespace batchai::run {

class LineMergerTest : public ScratchTest {
  protected:
    void SetUp() override {
        ScratchTest::SetUp();
        logs = LogDirectory(path("logs"));
        ASSERT_TRUE(logs.make());
    }
    std::string merged() const { return text_of("logs/merged"); }

    LogDirectory logs{""};
};

TEST_F(LineMergerTest, NeverTearsALine) {
    LineMerger merger({path("0"), path("1")}, logs, "merged");
    append("0", "first\nsec");
    append("1", "other\n");
    ASSERT_TRUE(merger.poll());
    EXPECT_EQ(merged(), "first\nother\n");
    append("0", "ond\n");
    ASSERT_TRUE(merger.poll());
    EXPECT_EQ(merged(), "first\nother\nsecond\n");
}

TEST_F(LineMergerTest, FinishBringsTheUnfinishedLine) {
    LineMerger merger({path("0"), path("never-written")}, logs, "merged");
    append("0", "a\nno newline");
    ASSERT_TRUE(merger.finish());
    EXPECT_EQ(merged(), "a\nno newline");
}

TEST_F(LineMergerTest, LosesNoByteOfALongStream) {
    LineMerger merger({path("0")}, logs, "merged");
    std::string all;
    for (int i = 0; i < 300; ++i) {
        const std::string piece = std::string(static_cast<std::size_t>(i) * 41U, 'x') + "\n";
        append("0", piece);
        all += piece;
        if (i % 7 == 0) {
            ASSERT_TRUE(merger.poll());
        }
    }
    // Longer than one block, without any newline.
    append("0", std::string(3U << 20U, 'y'));
    all += std::string(3U << 20U, 'y');
    ASSERT_TRUE(merger.poll());
    ASSERT_TRUE(merger.finish());
    EXPECT_TRUE(merged() == all);
}

TEST_F(LineMergerTest, CopiesTheOthersWhenASourceCannotBeRead) {
    std::filesystem::create_directory(path("0"));
    append("1", "other\n");
    LineMerger merger({path("0"), path("1")}, logs, "merged");
    EXPECT_FALSE(merger.poll());
    EXPECT_EQ(merged(), "other\n");
    append("1", "rest");
    EXPECT_FALSE(merger.finish());
    EXPECT_EQ(merged(), "other\nrest");
}

TEST_F(LineMergerTest, NeverFollowsALinkThatTookTheTargetsPlace) {
    append("0", "first\n");
    append("mine", "mine\n");
    LineMerger merger({path("0")}, logs, "merged");
    ASSERT_TRUE(merger.poll());
    std::filesystem::remove(path("logs/merged"));
    std::filesystem::create_symlink(path("mine"), path("logs/merged"));
    append("0", "second\n");
    EXPECT_FALSE(merger.finish());
    EXPECT_EQ(text_of("mine"), "mine\n");
}

// Breaks when a line that comes in pieces is copied before it is complete, or never.
TEST_F(LineMergerTest, WaitsForTheEndOfALine) {
    LineMerger merger({path("0")}, logs, "merged");
    append("0", "10 %\r");
    ASSERT_TRUE(merger.poll());
    ASSERT_TRUE(merger.poll());
    EXPECT_EQ(merged(), "(no file)");
    append("0", "20 %\n");
    ASSERT_TRUE(merger.poll());
    EXPECT_EQ(merged(), "10 %\r20 %\n");
}

}  // namespace batchai::run
