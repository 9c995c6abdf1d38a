// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/history/judge.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "facts.hpp"
#include "status/history/findings.hpp"
#include "status/history/numbers.hpp"

namespace batchai::status {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

auto says(const std::string& code, const std::string& text) {
    return Contains(
        AllOf(Field("code", &Advice::code, code), Field("text", &Advice::text, HasSubstr(text))));
}

std::vector<Advice> advice(const Facts& facts) {
    return judge(facts).advice;
}

// A job about which there is nothing to say.
Facts quick() {
    Facts facts = trained();
    facts.attempts[0].phases = {phase("outputs", 0, 1), phase("preparation", 1, 3),
                                phase("ranks", 3, 100)};
    facts.node_steps.clear();
    return facts;
}

TEST(Judge, IsSilentAboutAGoodJob) {
    EXPECT_THAT(advice(quick()), IsEmpty());
}

TEST(Judge, NamesALongPreparation) {
    EXPECT_THAT(advice(trained()),
                says("preparation", "Preparation took 40 % of attempt 1 (40 s of 1 min 40 s)"));
    EXPECT_THAT(advice(trained()), says("preparation", "containerSettings"));
}

TEST(Judge, NamesTheNodeThatTheOthersWaitedFor) {
    Facts facts = trained();
    facts.node_steps = {{.node = "h1", .begin = at(2), .ready = {}, .end = at(12)},
                        {.node = "h2", .begin = at(2), .ready = {}, .end = at(12)},
                        {.node = "h3", .begin = at(2), .ready = {}, .end = at(40)}};
    EXPECT_THAT(advice(facts), says("slowNode", "took 38 s on h3 and 10 s on the median node"));
    EXPECT_THAT(advice(quick()), Not(says("slowNode", "")));
}

TEST(Judge, NamesASlowRank) {
    Facts facts = quick();
    facts.timelines.asked_for = true;
    for (int rank = 0; rank < 4; ++rank)
        facts.timelines.ranks.push_back(rank_of_steps(rank, 100, rank == 2 ? 0.09 : 0.05, 0.1));
    EXPECT_THAT(
        advice(facts),
        says(
            "slowRank",
            "Rank 2 on h3 was 1.8 times slower than the median of the other ranks from step 1 on"));
    EXPECT_THAT(advice(facts), Not(says("communication", "")));
    EXPECT_EQ(judge(facts).why_no_speed, "");
}

// Breaks when the two sources of the same thing are told one after the other.
TEST(Judge, NamesTheRankForWhichTheOthersWaitedUnlessTheTimelineDoes) {
    Facts facts = quick();
    facts.advice_on_waits = "The others waited for rank 2";
    EXPECT_THAT(advice(facts), says("slowRank", "The others waited for rank 2"));
    for (int rank = 0; rank < 4; ++rank)
        facts.timelines.ranks.push_back(rank_of_steps(rank, 100, rank == 2 ? 0.09 : 0.05, 0.1));
    EXPECT_THAT(advice(facts), Not(says("slowRank", "The others waited")));
}

TEST(Judge, NamesCommunicationThatIsNotHidden) {
    Facts facts = quick();
    for (int rank = 0; rank < 4; ++rank)
        facts.timelines.ranks.push_back(rank_of_steps(rank, 100, 0.06, 0.1));
    EXPECT_THAT(advice(facts), says("communication", "in 40 % of each step (40 ms of 100 ms)"));
}

TEST(Judge, NamesTheLimitThatEndedTheJob) {
    Facts facts = quick();
    facts.job.state = "failed";
    facts.job.ended_by = "timeLimit";
    facts.asked.limit_seconds = 7200;
    EXPECT_THAT(advice(facts), says("timeLimit", "its time limit of 2 h 00 min"));
    facts = quick();
    facts.attempts[0].ended_by = record::EndedBy::preemption;
    EXPECT_THAT(advice(facts), says("preemption", "pre-empted once"));
    facts.asked.checkpoint = true;
    EXPECT_THAT(advice(facts), Not(says("preemption", "")));
    facts.job.ended_by = "memory";
    EXPECT_THAT(advice(facts), says("memory", "Raise \"mem\""));
}

TEST(Judge, SaysWhereTheJobStoodStill) {
    Facts facts = quick();
    facts.attempts[0].alarms = {{.time = at(50),
                                 .message = "the ranks have printed nothing",
                                 .node = "h2",
                                 .rank = 3,
                                 .where = "at train.py:8 in load()",
                                 .stacks = "stacks-1-1.txt"}};
    EXPECT_THAT(
        advice(facts),
        says("stall",
             "\"watch\" raised an alarm: the ranks have printed nothing, waiting for rank 3 on "
             "h2: at train.py:8 in load(). stacks-1-1.txt among its logs shows"));
}

TEST(Judge, PassesOnWhatIsSaidOfTheUse) {
    Facts facts = quick();
    facts.advice_on_use = {"The GPUs were never busy."};
    EXPECT_THAT(advice(facts), testing::ElementsAre(Advice{"use", "The GPUs were never busy."}));
}

TEST(Judge, NamesSoftwareThatTakesLong) {
    Facts facts = quick();
    facts.attempts[0].phases = {phase("software", 0, 30), phase("ranks", 30, 100)};
    EXPECT_THAT(advice(facts), says("software", "Setting up the job's software took 30 %"));
}

TEST(Judge, SaysHowToGetATimeline) {
    EXPECT_THAT(judge(quick()).why_no_speed, HasSubstr("MPI_BRIDGE_TIMELINE"));
    Facts facts = quick();
    facts.timelines.asked_for = true;
    facts.timelines.missing = "no file";
    EXPECT_THAT(judge(facts).why_no_speed, HasSubstr("cannot be read: no file"));
    facts.timelines.missing.clear();
    facts.timelines.ranks.push_back(rank_of_steps(0, 0, 1, 1));
    EXPECT_THAT(judge(facts).why_no_speed, HasSubstr("no repeated operations"));
}

TEST(Judge, SaysNothingOfAJobThatHasNotStarted) {
    Facts facts;
    facts.job.state = "queued";
    EXPECT_THAT(advice(facts), IsEmpty());
}

record::NodeUsage used(const std::string& step, int number, double from, double cpus) {
    record::NodeUsage usage{
        .step = step, .number = number, .node = "h1", .head = {}, .samples = {}};
    usage.head = {.start = at(from), .interval = 1, .cpus = 4, .memory = 8LL << 30};
    for (int i = 1; i <= 10; ++i)
        usage.samples.push_back(
            {.time = at(from + i), .cpu_seconds = cpus * i, .memory = i << 20, .peak = i << 20});
    return usage;
}

TEST(Resources, AreOfTheRanksAndShowAllSteps) {
    const auto nodes = resources_of({used("1", 2, 20, 3), used("1.preparation", 0, 0, 1)}, 1000);
    ASSERT_EQ(nodes.size(), 1U);
    EXPECT_EQ(nodes[0].points.size(), 20U);
    EXPECT_NEAR(*nodes[0].points[0].cpus, 1, 1e-9);
    EXPECT_NEAR(*nodes[0].points[15].cpus, 3, 1e-9);
    EXPECT_NEAR(nodes[0].cpus_mean, 3, 1e-9);
    EXPECT_EQ(nodes[0].memory_peak, 10 << 20);
    EXPECT_EQ(nodes[0].cpus_given, 4);
    EXPECT_LE(resources_of({used("1", 2, 20, 3)}, 4)[0].points.size(), 4U);
    EXPECT_THAT(resources_of({}, 4), IsEmpty());
}

TEST(Numbers, HaveWhatThePageHas) {
    Facts facts = trained();
    for (int rank = 0; rank < 4; ++rank)
        facts.timelines.ranks.push_back(rank_of_steps(rank, 100, 0.06, 0.1));
    facts.usage = {{1, {used("1", 2, 20, 3)}}};
    const base::Value numbers = numbers_of(judge(facts));
    EXPECT_EQ(*numbers["schema"].string(), "batchai-report/v1");
    EXPECT_EQ(*numbers["job"]["name"].string(), "train");
    const base::Value& attempt = numbers["attempts"].array()->front();
    EXPECT_EQ(*(*attempt["nodes"].array())[1]["phases"].array()->front()["phase"].string(),
              "preparation");
    EXPECT_EQ(*(*attempt["nodes"].array())[1]["phases"].array()->front()["seconds"].real(), 10);
    EXPECT_EQ(*attempt["resources"].array()->front()["cpusUsed"].real(), 3);
    EXPECT_EQ(*numbers["steps"]["stepSeconds"].real(), 0.1);
    EXPECT_EQ(numbers["steps"]["ranks"].array()->size(), 4U);
    EXPECT_FALSE(numbers["advice"].array()->empty());
}

}  // namespace
}  // namespace batchai::status
