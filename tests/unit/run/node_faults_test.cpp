// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/blame/node_faults.hpp"

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/phases/gpu_check.hpp"
#include "run/phases/link_check.hpp"
#include "slurm_of_scripts.hpp"

namespace batchai::run {

namespace {

using record::EndedBy;
using record::NodeFaultKind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;

Ending ending_on_n2(EndedBy by, bool of_node, const char* code = "") {
    return {.failure = {.code = code, .node = "n2"}, .by = by, .of_node = of_node};
}

std::vector<NodeFaultKind> kinds_of(const Ending& ending, std::size_t nodes = 4) {
    std::vector<NodeFaultKind> kinds;
    for (const record::NodeFault& fault : node_faults_of(ending, nodes, base::Time())) {
        EXPECT_TRUE(fault.node == "n2" || fault.node == "n3") << fault.node;
        kinds.push_back(fault.kind);
    }
    return kinds;
}

}  // namespace

TEST(NodeFaultsOfAnEnding, AreThoseForWhichNoProgramIsToBlame) {
    EXPECT_THAT(kinds_of(ending_on_n2(EndedBy::health, false)), ElementsAre(NodeFaultKind::health));
    EXPECT_THAT(kinds_of(ending_on_n2(EndedBy::node, true)), ElementsAre(NodeFaultKind::lost));
    EXPECT_THAT(kinds_of(ending_on_n2(EndedBy::start, true)), ElementsAre(NodeFaultKind::start));
    EXPECT_THAT(kinds_of(ending_on_n2(EndedBy::storage, true)), ElementsAre(NodeFaultKind::mount));
    EXPECT_THAT(kinds_of(ending_on_n2(EndedBy::hang, true)), ElementsAre(NodeFaultKind::hang));
    EXPECT_THAT(kinds_of(ending_on_n2(EndedBy::slow, true)), ElementsAre(NodeFaultKind::slow));
    EXPECT_THAT(kinds_of(ending_on_n2(EndedBy::start, true, gpu_check_failed)),
                ElementsAre(NodeFaultKind::gpus));
    EXPECT_THAT(kinds_of(ending_on_n2(EndedBy::start, true, link_check_failed)),
                ElementsAre(NodeFaultKind::links));
    for (const auto by : {EndedBy::program, EndedBy::memory, EndedBy::preparation,
                          EndedBy::node_setup, EndedBy::user, EndedBy::time_limit})
        EXPECT_THAT(kinds_of(ending_on_n2(by, by == EndedBy::program)), IsEmpty());
    // The first rank that ended may only have noticed the loss of another node.
    EXPECT_THAT(kinds_of(ending_on_n2(EndedBy::node, false)), IsEmpty());
    // Data that did not reach the storage.
    EXPECT_THAT(kinds_of(ending_on_n2(EndedBy::storage, false)), IsEmpty());
}

// Breaks when a wrong key, or a program that hangs, makes nodes look bad.
TEST(NodeFaultsOfAnEnding, AreNotThoseOfAllNodes) {
    Ending two = ending_on_n2(EndedBy::storage, true);
    two.more_bad_nodes = {"n3"};
    EXPECT_THAT(kinds_of(two, 2), IsEmpty());
    EXPECT_THAT(kinds_of(two, 3), ElementsAre(NodeFaultKind::mount, NodeFaultKind::mount));
    EXPECT_THAT(kinds_of(ending_on_n2(EndedBy::storage, true), 1),
                ElementsAre(NodeFaultKind::mount));
    Ending gpus = ending_on_n2(EndedBy::start, true, gpu_check_failed);
    gpus.more_bad_nodes = {"n3"};
    EXPECT_THAT(kinds_of(gpus, 2), IsEmpty());
    EXPECT_THAT(kinds_of(gpus, 3), ElementsAre(NodeFaultKind::gpus, NodeFaultKind::gpus));
    EXPECT_THAT(kinds_of(ending_on_n2(EndedBy::hang, true), 1), IsEmpty());
    EXPECT_THAT(kinds_of(ending_on_n2(EndedBy::slow, true), 1), IsEmpty());
    EXPECT_THAT(kinds_of(ending_on_n2(EndedBy::health, true), 1),
                ElementsAre(NodeFaultKind::health));
}

// A job of two ranks on n1 and n2, perhaps with n3 as a spare node, whose Slurm keeps a comment.
class NodeFaultNotesTest : public QueueAgainTest {
  protected:
    void SetUp() override {
        QueueAgainTest::SetUp();
        std::filesystem::remove(path("bin/scontrol"));
        script("scontrol",
               "case $1 in\n"
               "show) printf 'JobId=7\\n   Comment=%s\\n   Power=\\n' \"$(cat \"$here/comment\")\" "
               ";;\n"
               "update) case $3 in Comment=*) echo \"${3#*=}\" > \"$here/comment\" ;; esac ;;\n"
               "requeue) cp \"$here/comment\" \"$here/comment-of-requeue\" ;;\n"
               "--oneliner) cat \"$here/settings\" ;;\n"
               "esac");
        append("comment", "mine\n");
        plan_.note_failed_nodes = true;
        plan_.retry.reset();
    }
    void fail_health_of_task(const std::string& task) {
        plan_.health = plan::HealthChecks{.directory = "/checks", .retries = 1};
        steps_.answers.emplace_back([=, this](const StepRequest&) {
            append("job/attempts/1.health." + task + ".json",
                   R"({"schema": "batchai-health/v1", "refused": "", "checks": [{"name": "disk",
                "outcome": "failed", "exitCode": 1, "line": "gone", "milliseconds": 5}]})");
            return StepResult{};
        });
    }
    [[nodiscard]] std::string comment() const { return text_of("comment"); }
};

// Breaks when Slurm's accounting of the run that is queued again does not have the note.
TEST_F(NodeFaultNotesTest, AreLeftBeforeTheJobIsQueuedAgain) {
    fail_health_of_task("1");
    EXPECT_NE(attempt(), 0);
    EXPECT_THAT(comment(), MatchesRegex("mine batchai-nodes=n2.invalid:health:[0-9]+\n"));
    EXPECT_EQ(text_of("comment-of-requeue"), comment());
}

TEST_F(NodeFaultNotesTest, AreLeftOnlyIfTheSiteWantsThem) {
    plan_.note_failed_nodes = false;
    fail_health_of_task("1");
    EXPECT_NE(attempt(), 0);
    EXPECT_EQ(comment(), "mine\n");
    EXPECT_THAT(asked(), Not(HasSubstr("scontrol show")));
}

TEST_F(NodeFaultNotesTest, AreNotLeftForAProgramThatFails) {
    EXPECT_EQ(attempt_that_ends_with(3), 3);
    EXPECT_EQ(comment(), "mine\n");
    EXPECT_THAT(asked(), Not(HasSubstr("scontrol show")));
}

// Breaks when nobody hears of a node that a spare one has replaced, because the job succeeds.
TEST_F(NodeFaultNotesTest, AreLeftWhenASpareNodeTakesThePlace) {
    give_a_spare_node();
    fail_health_of_task("0");
    steps_.answer(0);
    steps_.answer(1, "srun: error: Node failure on n2.invalid\n");
    EXPECT_EQ(attempt(), 1);
    EXPECT_THAT(comment(), HasSubstr("n1.invalid:health:"));
    EXPECT_THAT(comment(), HasSubstr("n2.invalid:lost:"));
}

TEST_F(NodeFaultNotesTest, AreLeftBeforeTheRanksStartAgain) {
    give_a_spare_node();
    steps_.answer(0);
    steps_.answer(1, "srun: error: Node failure on n2.invalid\n");
    steps_.answers.emplace_back([this](const StepRequest&) {
        append("comment-then", comment());
        return StepResult{};
    });
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(text_of("comment-then"), HasSubstr("n2.invalid:lost:"));
}

// Breaks when a GPU that ranks held a moment ago makes a node look bad.
TEST_F(NodeFaultNotesTest, AreNotLeftForAGpuThatWorksWhenItIsTriedOnceMore) {
    give_a_spare_node();
    plan_.allocation.options = {{"gres", "gpu:2", plan::Origin::vm_size}};
    const auto check = [this](const char* start, const char* fault) {
        steps_.answers.emplace_back([=, this](const StepRequest&) {
            append(std::string("job/attempts/") + start + ".gpus.0.json",
                   std::string(R"({"schema": "mpi_bridge-gpus/v1", "fault": ")") + fault +
                       R"(", "gpus": "2", "driver": "", "slow": "", "direct": "", "nccl": "",
                        "ncclUnchecked": "", "host": "", "peers": "", "allreduce": ""})");
            return StepResult{};
        });
    };
    check("1", "");
    steps_.answer(0);
    steps_.answer(1, "srun: error: Node failure on n2.invalid\n");
    check("1-1", "busy");
    check("1-2", "");
    (void)attempt();
    EXPECT_THAT(comment(), HasSubstr("n2.invalid:lost:"));
    EXPECT_THAT(comment(), Not(HasSubstr("gpus")));
}

// Breaks when nobody hears of a node whose loss Slurm has told only with the end of the job.
TEST_F(NodeFaultNotesTest, NameTheNodesThatSlurmSaysAreDown) {
    script("sinfo",
           "echo 'n1.invalid|allocated|2|(null)|main|(null)|none|'\n"
           "echo 'n2.invalid|down*|2|(null)|main|(null)|Not responding|'\n"
           "echo 'n9.invalid|down|2|(null)|main|(null)|none|'");
    outside_.why = EndedBy::node;
    steps_.answer(0);
    steps_.answer(143, "srun: error: n1.invalid: task 0: Terminated\n", 15);
    EXPECT_NE(attempt(), 0);
    EXPECT_THAT(comment(), MatchesRegex("mine batchai-nodes=n2.invalid:lost:[0-9]+\n"));
}

// Breaks when a Slurm that does not answer ends a job, or is asked again and again by one.
TEST_F(NodeFaultNotesTest, EndNoJobIfSlurmRefusesThem) {
    give_a_spare_node();
    std::filesystem::remove(path("bin/scontrol"));
    script("scontrol", "echo 'slurm_update error: busy' >&2; exit 1");
    steps_.answer(0);
    steps_.answer(1, "srun: error: Node failure on n2.invalid\n");
    EXPECT_EQ(attempt(), 0);
}

}  // namespace batchai::run
