// SPDX-License-Identifier: GPL-2.0-or-later
#include "admin/node_faults.hpp"

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "admin/checks.hpp"
#include "admin/cluster_facts.hpp"
#include "admin/findings_view.hpp"

namespace batchai::admin {
namespace {

using record::NodeFaultKind;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const base::Time begin = *base::from_iso8601("2026-11-29T12:00:00");
const std::set<std::string> h1_to_h4{"h1", "h2", "h3", "h4"};

// A run from 12:00 to 13:00 whose comment says that h3 was bad `minutes` after 12:00.
slurm::CommentedRun run_on_h3(std::string id, std::string user, const std::string& kind,
                              int minutes = 30) {
    const auto time = begin + std::chrono::minutes(minutes);
    const auto seconds = std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
    return {.id = std::move(id),
            .user = std::move(user),
            .start = begin,
            .end = begin + std::chrono::hours(1),
            .nodes = "h[2-3]",
            .comment = "mine batchai-nodes=h3:" + kind + ":" + std::to_string(seconds)};
}

NodeJudgement judgement_of_h3(const std::vector<slurm::CommentedRun>& runs) {
    const NodeFaults faults{.nodes = blamed_nodes(runs, h1_to_h4), .days = 7};
    const Judgement judgement = judge_node_faults(faults);
    EXPECT_THAT(judgement.nodes, SizeIs(1));
    if (judgement.nodes.empty()) return {};
    EXPECT_EQ(judgement.nodes.front().node, "h3");
    return judgement.nodes.front();
}

TEST(NodeFaultsOfAllUsers, AreAWarningIfSeveralJobsBlameANode) {
    const auto found =
        judgement_of_h3({run_on_h3("11", "alice", "health", 20), run_on_h3("12", "bob", "lost", 40),
                         run_on_h3("13", "bob", "lost", 30)});
    EXPECT_EQ(found.severity, Severity::warning);
    EXPECT_EQ(found.found,
              "3 jobs of 2 users have found it bad in the last 7 days: was lost (2 jobs), failed a "
              "check of the site (1 job); the last one was job 12, at 2026-11-29T12:40:00+00:00");
    EXPECT_THAT(found.remedy, HasSubstr("State=DRAIN"));
}

TEST(NodeFaultsOfAllUsers, AreAnInformationIfOneJobBlamesANode) {
    const auto found = judgement_of_h3({run_on_h3("11", "alice", "health")});
    EXPECT_EQ(found.severity, Severity::info);
    EXPECT_THAT(found.found, HasSubstr("1 job of one user has found it bad"));
    EXPECT_EQ(found.remedy, "");
}

// Breaks when a user can make a node look bad, or when the same mistake in a user's job files
// drains nodes.
TEST(NodeFaultsOfAllUsers, SayIfTheyAreThoseOfOneUser) {
    const auto found =
        judgement_of_h3({run_on_h3("11", "alice", "health"), run_on_h3("12", "alice", "health")});
    EXPECT_EQ(found.severity, Severity::warning);
    EXPECT_THAT(found.found, HasSubstr("2 jobs, all of one user, have"));
    EXPECT_THAT(found.remedy, HasSubstr("ask that user"));
    for (const char* const kind : {"gpus", "mount", "start", "hang", "slow"}) {
        const auto of_one =
            judgement_of_h3({run_on_h3("11", "alice", kind), run_on_h3("12", "alice", kind)});
        EXPECT_EQ(of_one.severity, Severity::info) << kind;
        const auto of_two =
            judgement_of_h3({run_on_h3("11", "alice", kind), run_on_h3("12", "bob", kind)});
        EXPECT_EQ(of_two.severity, Severity::info) << kind;
        const auto of_three =
            judgement_of_h3({run_on_h3("11", "alice", kind), run_on_h3("12", "bob", kind),
                             run_on_h3("13", "carol", kind)});
        EXPECT_EQ(of_three.severity, Severity::warning) << kind;
        EXPECT_THAT(of_three.remedy, Not(HasSubstr("ask that user")));
    }
}

// Breaks when a job can blame nodes that it has never had, or a time at which it did not run.
TEST(NodeFaultsOfAllUsers, CountOnlyIfSlurmSaysThatTheJobHadTheNodeThen) {
    auto elsewhere = run_on_h3("11", "bob", "lost");
    elsewhere.nodes = "h[1-2]";
    EXPECT_THAT(blamed_nodes({elsewhere}, h1_to_h4), IsEmpty());
    EXPECT_THAT(blamed_nodes({run_on_h3("11", "bob", "lost", -10)}, h1_to_h4), IsEmpty());
    EXPECT_THAT(blamed_nodes({run_on_h3("11", "bob", "lost", 70)}, h1_to_h4), IsEmpty());
    auto waiting = run_on_h3("11", "bob", "lost");
    waiting.start = waiting.end = std::nullopt;
    EXPECT_THAT(blamed_nodes({waiting}, h1_to_h4), IsEmpty());
    auto unreadable = run_on_h3("11", "bob", "lost");
    unreadable.nodes = "h[";
    EXPECT_THAT(blamed_nodes({unreadable}, h1_to_h4), IsEmpty());
    // A node that the cluster no longer has.
    EXPECT_THAT(blamed_nodes({run_on_h3("11", "bob", "lost")}, {"h1"}), IsEmpty());
}

// Breaks when a job that was queued again, or has given back the node that it has lost, counts for
// each of its runs, or not at all.
TEST(NodeFaultsOfAllUsers, CountOnceForAJobWithSeveralRuns) {
    auto first = run_on_h3("11", "alice", "lost", 61);
    const auto comment = first.comment;
    first.comment = "mine";
    auto second = first;
    second.start = first.end;
    second.end = std::nullopt;
    second.nodes = "h2";
    second.comment = comment;
    auto third = second;
    const auto found = blamed_nodes({first, second, third}, h1_to_h4);
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_THAT(found.at("h3").jobs.at(NodeFaultKind::lost), SizeIs(1));
}

TEST(NodeFaultsOfAllUsers, AreFindingsWithTheNodeAsTheirHost) {
    ClusterFacts facts;
    facts.site = site::Site();
    facts.site->note_failed_nodes = true;
    facts.configuration =
        slurm::Configuration{{"AccountingStorageType", "accounting_storage/slurmdbd"},
                             {"AccountingStoreFlags", "job_comment,job_script"}};
    facts.node_faults = NodeFaults{
        .nodes = blamed_nodes({run_on_h3("11", "alice", "gpus"), run_on_h3("12", "bob", "links")},
                              h1_to_h4),
        .days = 2,
        .is_complete = false};
    std::vector<Finding> findings;
    judge_all(cluster_checks(), facts, "login", findings);
    findings = selected(findings, {"nodes.faults"});
    ASSERT_THAT(findings, SizeIs(1));
    EXPECT_EQ(findings.front().host, "h3");
    EXPECT_THAT(findings.front().found,
                AllOf(HasSubstr("in the last 2 days"), HasSubstr("its GPUs could not be used (1"),
                      HasSubstr("its links were bad (1 job)")));
    const HostFindings report{
        .version = "1", .host = "login", .slurm = "22.05.8", .checks = findings};
    EXPECT_THAT(report_text(report),
                HasSubstr("warning  nodes.faults         h3: 2 jobs of 2 users"));
}

}  // namespace
}  // namespace batchai::admin
