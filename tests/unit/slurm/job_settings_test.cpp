// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/job_settings.hpp"

#include <gtest/gtest.h>

namespace batchai::slurm {

namespace {

// As Slurm 22.05 prints it, on one line.
std::string shown(const std::string& required, const std::string& excluded,
                  const std::string& preempted) {
    return "JobId=7 JobName=train UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A Priority=1 "
           "JobState=RUNNING Reason=None Requeue=1 Restarts=0 PreemptEligibleTime=Unknown "
           "PreemptTime=" +
           preempted + " Partition=main ReqNodeList=" + required + " ExcNodeList=" + excluded +
           " NodeList=n[1-2] BatchHost=n1 Comment=x ExcNodeList=n9\n";
}

}  // namespace

TEST(JobSettings, AreReadFromOneLine) {
    const auto none = parse_job_settings(shown("(null)", "(null)", "None"));
    ASSERT_TRUE(none);
    EXPECT_EQ(*none, JobSettings{.runs = true});
    const auto all = parse_job_settings(shown("n[1-2]", "n[3-4],x", "2026-11-24T10:00:00"));
    ASSERT_TRUE(all);
    EXPECT_EQ(
        *all,
        (JobSettings{
            .excluded = "n[3-4],x", .required = {"n1", "n2"}, .preempted = true, .runs = true}));
}

// Breaks when a job that gang scheduling has suspended for a while counts as one that lost its
// nodes.
TEST(JobSettings, AJobThatWasOnlySuspendedIsNotPreempted) {
    const auto is_preempted = [](const std::string& claimed, const std::string& suspended) {
        return parse_job_settings(
                   shown("x", "x", claimed + " SuspendTime=" + suspended + " SecsPreSuspend=40"))
            ->preempted;
    };
    EXPECT_TRUE(is_preempted("2026-11-24T10:00:00", "None"));
    EXPECT_FALSE(is_preempted("2026-11-24T10:00:00", "2026-11-24T10:00:00"));
    EXPECT_FALSE(is_preempted("2026-11-24T10:00:00", "2026-11-24T10:05:00"));
    EXPECT_TRUE(is_preempted("2026-11-24T10:06:00", "2026-11-24T10:05:00"));
    EXPECT_FALSE(is_preempted("None", "2026-11-24T10:05:00"));
}

// Breaks when Slurm's flags are not found among each other, or behind the texts of the user.
TEST(JobSettings, SayWhetherSlurmExpeditesTheJob) {
    const auto is_expedited = [](const std::string& flags) {
        return parse_job_settings(
                   "JobId=7 JobState=RUNNING ReqNodeList=(null) ExcNodeList=(null) "
                   "Comment=x " +
                   flags + "\n")
            ->expedited;
    };
    EXPECT_FALSE(is_expedited(""));
    EXPECT_FALSE(is_expedited("SpreadJob=Yes"));
    EXPECT_TRUE(is_expedited("ExpeditedRequeue=Yes"));
    EXPECT_TRUE(is_expedited("GresEnforceBind=Yes,ExpeditedRequeue=Yes TresPerJob=cpu:1"));
}

TEST(JobSettings, SayWhetherTheJobStillRuns) {
    const auto runs = [](const std::string& state) {
        return parse_job_settings("JobId=7 JobState=" + state +
                                  " ReqNodeList=(null) ExcNodeList=(null)\n")
            ->runs;
    };
    EXPECT_TRUE(runs("RUNNING"));
    for (const char* other : {"COMPLETING", "EXPEDITING", "PENDING", "CANCELLED"})
        EXPECT_FALSE(runs(other)) << other;
}

TEST(JobSettings, OfNoJobAreAnError) {
    EXPECT_FALSE(parse_job_settings(""));
    EXPECT_FALSE(parse_job_settings("slurm_load_jobs error: Invalid job id specified\n"));
}

TEST(Comment, IsTheRestOfItsLine) {
    EXPECT_EQ(
        parse_comment("JobId=1 JobName=a\n   Comment=batchai:x {\"a\": 1} \n   StdErr=/dev/null\n"),
        "batchai:x {\"a\": 1}");
    EXPECT_EQ(parse_comment("JobId=1\n   Comment=(null)\n"), "");
    EXPECT_EQ(parse_comment("JobId=1\n   Comment=project X\nticket 12 \n   StdErr=/dev/null\n\n"),
              "project X\nticket 12")
        << "what is not read would be lost when the comment is replaced";
    EXPECT_EQ(parse_comment("JobId=1\n   Comment=last\n\n"), "last");
    EXPECT_EQ(parse_comment("JobId=1\n   AdminComment=mine\n"), "");
}

TEST(JobSettings, NodesAreAddedToThoseThatAreThere) {
    EXPECT_EQ(with_nodes("", {"n1"}).value(), "n1");
    EXPECT_EQ(with_nodes("n[1-3],x", {"n2", "n4", "n4"}).value(), "n[1-3],x,n4");
    EXPECT_FALSE(with_nodes("n[", {"n2"}));
}

}  // namespace batchai::slurm
