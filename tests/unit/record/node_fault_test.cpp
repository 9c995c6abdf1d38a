// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/node_fault.hpp"

#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "record/last_words.hpp"

namespace batchai::record {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

NodeFault fault(std::string node, NodeFaultKind kind, int second) {
    return {
        .node = std::move(node), .kind = kind, .time = base::Time(std::chrono::seconds(second))};
}

Attempt failed_attempt() {
    Attempt attempt;
    attempt.slurm_job_id = "17";
    attempt.failure = Failure{.code = "JobFailed", .message = std::string(2000, 'x')};
    return attempt;
}

TEST(NodeFaults, ComeBackFromTheCommentBesideWhatTheUserHasPutThere) {
    const NodeFault health = fault("h3", NodeFaultKind::health, 1764453034);
    const NodeFault lost = fault("gpu-0.site_b", NodeFaultKind::lost, 1764453035);
    const std::string comment = comment_with_node_faults("batchai:some/path, mine", {health, lost});
    EXPECT_EQ(comment,
              "batchai:some/path, mine "
              "batchai-nodes=gpu-0.site_b:lost:1764453035,h3:health:1764453034");
    EXPECT_THAT(node_faults_in_comment(comment), ElementsAre(lost, health));
    EXPECT_EQ(comment_with_node_faults("", {health}), "batchai-nodes=h3:health:1764453034");
    EXPECT_THAT(node_faults_in_comment("mine batchai-nodes=h3:health:1764453034 more of mine"),
                ElementsAre(health));
    EXPECT_EQ(comment_with_node_faults("a batchai-nodes=h3:health:1764453034 b", {lost}),
              "a b batchai-nodes=gpu-0.site_b:lost:1764453035,h3:health:1764453034");
    EXPECT_THAT(node_faults_in_comment("batchai:some/path"), IsEmpty());
}

// Breaks when the comment grows with each attempt that finds the same fault.
TEST(NodeFaults, OfOneKindOnOneNodeAreKeptOnce) {
    const std::string once =
        comment_with_node_faults("mine", {fault("h3", NodeFaultKind::health, 10)});
    const std::string twice = comment_with_node_faults(
        once, {fault("h3", NodeFaultKind::health, 12), fault("h3", NodeFaultKind::lost, 11)});
    EXPECT_EQ(twice, "mine batchai-nodes=h3:health:12,h3:lost:11");
}

// Breaks when Slurm refuses the comment, or the user's own words are cut.
TEST(NodeFaults, AreLeftOutIfTheCommentWouldBecomeTooLong) {
    std::vector<NodeFault> many;
    for (int i = 0; i < 200; ++i)
        many.push_back(fault("node" + std::to_string(i), NodeFaultKind::gpus, i));
    const std::string comment = comment_with_node_faults(std::string(800, 'm'), many);
    EXPECT_LE(comment.size(), 1000U);
    EXPECT_GT(comment.size(), 970U);
    EXPECT_EQ(node_faults_in_comment(comment).front().node, "node199");
    const std::string mine(999, 'm');
    EXPECT_EQ(comment_with_node_faults(mine, many), mine);
}

// Breaks when an attempt whose record could not be written forgets which node was to blame, or the
// other way round.
TEST(NodeFaults, StandBesideTheEndOfAnAttempt) {
    const NodeFault health = fault("h3", NodeFaultKind::health, 1764453034);
    const std::string first =
        comment_with_end(comment_with_node_faults("mine", {health}), failed_attempt());
    EXPECT_LE(first.size(), 1000U);
    EXPECT_THAT(node_faults_in_comment(first), ElementsAre(health));
    EXPECT_EQ(end_in_comment(first)->slurm_job_id, "17");
    Attempt brief = failed_attempt();
    brief.failure->message = "boom";
    const std::string second = comment_with_node_faults(comment_with_end("mine", brief), {health});
    EXPECT_THAT(node_faults_in_comment(second), ElementsAre(health));
    EXPECT_EQ(end_in_comment(second)->failure->message, "boom");
    EXPECT_TRUE(second.starts_with("mine batchai-nodes=")) << second;
}

// Breaks when what a user has written is taken for the name of a node or for a time.
TEST(NodeFaults, WithAnotherFormArePassedOver) {
    for (const char* const list :
         {"h3", "h3:health", "h3:health:", "h3:health:-1", "h3:health:+1", "h3:health:1e9",
          "h3:health:99999999999", "h3:broken:1", ":health:1", "h3:health:1:2",
          "<b>h3</b>:health:1", "h3\033[31m:health:1", "h[1-3]:health:1", "../h3:health:1",
          "h3;id:health:1"})
        EXPECT_THAT(node_faults_in_comment(std::string("batchai-nodes=") + list), IsEmpty())
            << list;
    EXPECT_THAT(node_faults_in_comment("xbatchai-nodes=h3:health:1"), IsEmpty());
    EXPECT_THAT(node_faults_in_comment("batchai-nodes=x,h3:health:1,y:y:y"), SizeIs(1));
    std::string endless = "batchai-nodes=h1:lost:1";
    for (int i = 0; i < 1000; ++i)
        endless += ",h1:lost:1";
    EXPECT_THAT(node_faults_in_comment(endless), IsEmpty());
}

}  // namespace
}  // namespace batchai::record
