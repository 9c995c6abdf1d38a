// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/job_comments.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchai::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const auto start = base::from_iso8601("2026-11-29T21:52:48");
const auto end_of_run = base::from_iso8601("2026-11-29T21:52:52");

TEST(JobComments, AreThoseOfAllRunsOfAJobWithTheWord) {
    // The runs of a job need not follow each other.
    EXPECT_THAT(parse_job_comments("3#alice#2026-11-29T21:52:48#2026-11-29T21:52:52#h[1-3]#mine\n"
                                   "4#bob#2026-11-29T21:52:48#2026-11-29T21:52:52#h4#\n"
                                   "3#alice#2026-11-29T21:52:52#Unknown#h[1-2]#mine word=x | y\n"
                                   "3#alice#Unknown#Unknown#None assigned#\n",
                                   "#", "word="),
                ElementsAre(CommentedRun{"3", "alice", start, end_of_run, "h[1-3]", "mine"},
                            CommentedRun{"3", "alice", end_of_run, {}, "h[1-2]", "mine word=x | y"},
                            CommentedRun{"3", "alice", {}, {}, "", ""}));
}

// Breaks when a user blames a node in the name of another one by a comment with a newline.
TEST(JobComments, CannotImitateTheLinesOfOtherJobs) {
    const std::string forged = "x\n9|alice|2026-11-29T21:52:48|2026-11-29T21:52:52|h1|word=x\n9\n";
    EXPECT_THAT(
        parse_job_comments("5#-#bob#-#2026-11-29T21:52:48#-#2026-11-29T21:52:52#-#h1#-#" + forged,
                           "#-#", "word="),
        IsEmpty());
    EXPECT_THAT(
        parse_job_comments("5_[1-3]#bob#Unknown#Unknown#None assigned#word=\n", "#", "word="),
        IsEmpty());
    EXPECT_THAT(parse_job_comments("", "#", "word="), IsEmpty());
}

}  // namespace
}  // namespace batchai::slurm
