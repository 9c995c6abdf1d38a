// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/stacks/python_dump.hpp"

#include <gtest/gtest.h>

namespace {

using batchai::visit::frames_in_dump;
using batchai::visit::StackFrame;
using Frames = std::vector<StackFrame>;

TEST(PythonDump, HasTheFramesWithTheInnermostFirst) {
    EXPECT_EQ(
        frames_in_dump("Stack (most recent call first):\n"
                       "  File \"/usr/lib/python3.11/threading.py\", line 331 in wait\n"
                       "  File \"train.py\", line 88 in step\n"
                       "  ...\n"),
        (Frames{{"/usr/lib/python3.11/threading.py", 331, "wait"}, {"train.py", 88, "step"}}));
}

// Breaks when what Python 3.14 adds is taken for a frame.
TEST(PythonDump, EndsBeforeTheStackOfC) {
    EXPECT_EQ(frames_in_dump("Stack (most recent call first):\n"
                             "  Garbage-collecting\n"
                             "  File \"train.py\", line 88 in step\n"
                             "\n"
                             "Current thread's C stack trace (most recent call first):\n"
                             "  Binary file \"/usr/bin/python3.14\", at _Py_DumpStack+0x3d\n"
                             "  File \"not a frame of Python\", line 1 in nothing\n"),
              (Frames{{"train.py", 88, "step"}}));
}

TEST(PythonDump, TakesPathsWithAnythingInThem) {
    EXPECT_EQ(frames_in_dump("Stack (most recent call first):\n"
                             "  File \"/a, line 3 in b/\"x\".py\", line 7 in f\n"
                             "  File ???, line ??? in g\n"),
              (Frames{{"/a, line 3 in b/\"x\".py", 7, "f"}, {"???", 0, "g"}}));
}

TEST(PythonDump, MakesNothingOfOtherText) {
    EXPECT_TRUE(frames_in_dump("").empty());
    EXPECT_TRUE(frames_in_dump("Traceback\n  File \"a\", line 1 in b\nStack\n").empty());
    // Cut off in the middle of a line.
    EXPECT_TRUE(frames_in_dump("Stack (most recent call first):\n  File \"a\", li").empty());
}

}  // namespace
