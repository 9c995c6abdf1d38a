// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/file_pattern.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchai::slurm {
namespace {

using testing::ElementsAre;

TEST(FilePattern, NamesFilesInTheirDirectory) {
    EXPECT_THAT(
        output_options("/home/a b/1.stdout-%t.txt", "/home/a b/1.stderr-%t.txt"),
        ElementsAre("--output=/home/a b/1.stdout-%t.txt", "--error=/home/a b/1.stderr-%t.txt"));
}

// Breaks when Slurm is given a directory in which it replaces something.
TEST(FilePattern, KeepsADirectoryAwayFromSlurmThatItWouldRead) {
    for (const std::string directory :
         {"/shared/100%used", "/u%%j", "/home/CORP\\alice", "/%t/%N", "/ends in %"}) {
        EXPECT_TRUE(is_pattern(directory)) << directory;
        EXPECT_THAT(output_options(directory + "/o-%t", directory + "/e-%N"),
                    ElementsAre("--chdir=" + directory, "--output=o-%t", "--error=e-%N"));
        EXPECT_EQ(directory_of_output(directory + "/o-%t"), directory);
    }
}

TEST(FilePattern, WritesAPathForSbatch) {
    EXPECT_EQ(batch_output("/home/a b/slurm.log"), "/home/a b/slurm.log");
    EXPECT_EQ(batch_output("/100%used/%%j"), "/100%%used/%%%%j");
    for (const char* release : {"22.05.8", "23.11.10", "24.05.0"})
        EXPECT_TRUE(can_name_backslash(release)) << release;
    for (const char* release : {"24.11.5", "25.05.1", "26.05.0-rc1", "unknown"})
        EXPECT_FALSE(can_name_backslash(release)) << release;
    EXPECT_EQ(batch_output("/CORP\\alice/100%u"), "/CORP\\\\alice/100%u");
}

}  // namespace
}  // namespace batchai::slurm
