// SPDX-License-Identifier: GPL-2.0-or-later
#include <fcntl.h>
#include <gtest/gtest.h>

#include "run/logs.hpp"
#include "scratch.hpp"

namespace batchai::run {

class LineMergerTest : public ScratchTest {
  protected:
    std::string merged() const { return text_of("merged"); }
    base::FileDescriptor target() const {
        return base::FileDescriptor(
            open(path("merged").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    }
};

TEST_F(LineMergerTest, NeverTearsALine) {
    LineMerger merger({path("0"), path("1")}, target(), "merged");
    append("0", "first\nsec");
    append("1", "other\n");
    ASSERT_TRUE(merger.poll());
    EXPECT_EQ(merged(), "first\nother\n");
    append("0", "ond\n");
    ASSERT_TRUE(merger.poll());
    EXPECT_EQ(merged(), "first\nother\nsecond\n");
}

TEST_F(LineMergerTest, FinishBringsTheUnfinishedLine) {
    LineMerger merger({path("0"), path("never-written")}, target(), "merged");
    append("0", "a\nno newline");
    ASSERT_TRUE(merger.finish());
    EXPECT_EQ(merged(), "a\nno newline");
}

TEST_F(LineMergerTest, LosesNoByteOfALongStream) {
    LineMerger merger({path("0")}, target(), "merged");
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

}  // namespace batchai::run
