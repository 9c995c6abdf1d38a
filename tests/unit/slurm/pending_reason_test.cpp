// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/pending_reason.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchai::slurm {
namespace {

using ::testing::HasSubstr;

TEST(PendingReason, SaysWhatTheUserWaitsForAndWhatHelps) {
    const auto words = pending_reason_in_words("Resources");
    EXPECT_EQ(words.sentence, "the nodes that the job asks for are busy");
    EXPECT_EQ(words.advice, "fewer nodes, or a shorter time limit, may start sooner");
    EXPECT_THAT(pending_reason_in_words("(Priority)").sentence, HasSubstr("higher priority"));
    EXPECT_THAT(pending_reason_in_words("PartitionTimeLimit").advice,
                HasSubstr("maxWallClockTime"));
    EXPECT_THAT(pending_reason_in_words("JobHeldUser").advice, HasSubstr("scontrol release"));
}

TEST(PendingReason, IsTheSameWithAndWithoutBlanks) {
    const auto blanks = pending_reason_in_words("launch failed requeued held");
    EXPECT_THAT(blanks.sentence, HasSubstr("could not be started on its node"));
    EXPECT_EQ(pending_reason_in_words("launch_failed_requeued_held").sentence, blanks.sentence);
}

TEST(PendingReason, ThatIsNotKnownIsShownAsSlurmHasIt) {
    EXPECT_EQ(pending_reason_in_words("SomethingNew").sentence, "SomethingNew");
    EXPECT_EQ(pending_reason_in_words("SomethingNew").advice, "");
}

TEST(PendingReason, AJobLargerThanItsPartitionIsToldToShrink) {
    const auto words = pending_reason_in_words("PartitionConfig");
    EXPECT_THAT(words.sentence, HasSubstr("more nodes than the partition has"));
    EXPECT_THAT(words.advice, HasSubstr("nodeCount"));
}

TEST(PendingReason, NodesThatAreNotAvailableAreNamed) {
    EXPECT_THAT(pending_reason_in_words("ReqNodeNotAvail, UnavailableNodes:n[1-2]").sentence,
                HasSubstr("n[1-2]"));
    EXPECT_THAT(pending_reason_in_words("ReqNodeNotAvail, Reserved for maintenance").advice,
                HasSubstr("time limit"));
    EXPECT_THAT(pending_reason_in_words("Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_"
                                        "jobs_in_higher_priority_partitions")
                    .advice,
                HasSubstr("sinfo -R"));
}

TEST(PendingReason, ALimitSaysWhoseAndOnWhat) {
    const auto qos = pending_reason_in_words("QOSMaxNodePerUserLimit");
    EXPECT_EQ(qos.sentence, "the job exceeds the QOS's limit on nodes (QOSMaxNodePerUserLimit)");
    EXPECT_THAT(qos.advice, HasSubstr("sacctmgr show qos"));
    EXPECT_THAT(pending_reason_in_words("AssocGrpGRES").sentence, HasSubstr("GPUs"));
    EXPECT_THAT(pending_reason_in_words("QOSMinGRES").sentence, HasSubstr("less of generic"));
    EXPECT_EQ(pending_reason_in_words("MaxCpuRunMinsPerUser").sentence,
              "the job exceeds the QOS's limit on minutes of use (MaxCpuRunMinsPerUser)");
    EXPECT_THAT(pending_reason_in_words("QOSMaxCpuMinutesPerJobLimit").sentence,
                HasSubstr("exceeds the QOS's limit on minutes of use"));
}

TEST(PendingReason, AnUnknownOneIsPassedOn) {
    EXPECT_EQ(pending_reason_in_words("SomethingNew").sentence, "SomethingNew");
    EXPECT_EQ(pending_reason_in_words("SomethingNew").advice, "");
    EXPECT_EQ(pending_reason_in_words("").sentence, pending_reason_in_words("None").sentence);
}

}  // namespace
}  // namespace batchai::slurm
