// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/history/collect.hpp"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "facts.hpp"
#include "tests/unit/base/scratch.hpp"

namespace batchai::status {
namespace {

using testing::HasSubstr;

std::string timeline(int rank, int steps) {
    std::string out = fmt::format(
        "[\n{{\"ph\":\"M\",\"pid\":{0},\"tid\":0,\"ts\":0.000,\"name\":\"clock\",\"args\":{{"
        "\"rank\":{0},\"host\":\"h\",\"realtime_ns\":1782036000000000000}}}}",
        rank);
    for (int i = 0; i < steps; ++i) {
        out += fmt::format(
            ",\n{{\"ph\":\"B\",\"pid\":{0},\"tid\":1,\"ts\":{1}.000,\"name\":\"ALLREDUCE\","
            "\"args\":{{\"bytes\":8}}}}",
            rank, i * 1000 + 600);
        out += fmt::format(
            ",\n{{\"ph\":\"E\",\"pid\":{0},\"tid\":1,\"ts\":{1}.000,\"name\":\"ALLREDUCE\"}}", rank,
            i * 1000 + 1000);
    }
    return out + "\n]\n";
}

TEST(Timelines, OfAllRanksAreRead) {
    const Scratch scratch;
    for (const int rank : {0, 1, 10}) {
        std::ofstream(scratch.path() / fmt::format("step.{}.json", rank)) << timeline(rank, 5);
    }
    std::ofstream(scratch.path() / "step.json") << timeline(5, 5);
    std::ofstream(scratch.path() / "step.-1.json") << timeline(6, 5);
    std::ofstream(scratch.path() / "other.0.json") << timeline(7, 5);
    std::ofstream(scratch.path() / "step.2.json") << "{\"traceEvents\": 1}";
    // Neither of these is opened.
    ASSERT_EQ(mkfifo((scratch.path() / "step.3.json").c_str(), 0600), 0);
    std::filesystem::create_symlink(scratch.path() / "other.0.json",
                                    scratch.path() / "step.4.json");
    const auto ranks = read_timelines((scratch.path() / "step").string());
    ASSERT_EQ(ranks.size(), 3U);
    EXPECT_EQ(ranks[2].rank, 10);
    EXPECT_EQ(ranks[0].steps.size(), 4U);
    EXPECT_TRUE(ranks[0].whole);
    EXPECT_NEAR(ranks[0].steps[0].own, 0.0006, 1e-9);
    EXPECT_TRUE(read_timelines((scratch.path() / "none").string()).empty());
    EXPECT_TRUE(read_timelines("/nowhere/step").empty());
}

// Breaks when a long file is read as a whole.
TEST(Timelines, OfLongFilesArePartlyRead) {
    const Scratch scratch;
    std::ofstream(scratch.path() / "step.0.json") << timeline(0, 20000);
    const auto ranks = read_timelines((scratch.path() / "step").string(), 100000);
    ASSERT_EQ(ranks.size(), 1U);
    EXPECT_FALSE(ranks[0].whole);
    EXPECT_GT(ranks[0].steps.size(), 100U);
    EXPECT_LT(ranks[0].steps.size(), 2000U);
    EXPECT_GT(ranks[0].steps.back().begin, at(19));
    for (const TrainingStep& step : ranks[0].steps)
        EXPECT_NEAR(step.total, 0.001, 1e-9);
}

plan::Plan plan_with(const std::string& timeline, const std::filesystem::path& directory) {
    plan::Plan plan;
    plan.directories.stdouterr = "/mnt/job/share/logs";
    plan.directories.stdouterr_host = (directory / "logs").string();
    plan.environment = {{"MPI_BRIDGE_TIMELINE", timeline}};
    return plan;
}

TEST(Collect, FindsTheTimelineWhereTheJobHasWrittenIt) {
    const Scratch scratch;
    std::filesystem::create_directories(scratch.path() / "logs");
    std::ofstream(scratch.path() / "logs/step.0.json") << timeline(0, 5);
    const record::JobFiles files(scratch.path());
    const auto facts = collect(files, plan_with("/mnt/job/share/logs/step", scratch.path()), {});
    ASSERT_TRUE(facts);
    EXPECT_TRUE(facts->timelines.asked_for);
    EXPECT_EQ(facts->timelines.ranks.size(), 1U);
    EXPECT_EQ(facts->timelines.missing, "");
}

TEST(Collect, SaysWhyThereIsNoTimeline) {
    const Scratch scratch;
    const record::JobFiles files(scratch.path());
    auto plan = plan_with("/mnt/job/share/logs/step", scratch.path());
    EXPECT_THAT(collect(files, plan, {})->timelines.missing, HasSubstr("there is no file"));
    plan.environment = {{"HOROVOD_TIMELINE", "/tmp/of-the-node"}};
    EXPECT_THAT(collect(files, plan, {})->timelines.missing, HasSubstr("this host can see"));
    plan.environment = {{"HOROVOD_TIMELINE", "DYNAMIC"}};
    EXPECT_FALSE(collect(files, plan, {})->timelines.asked_for);
}

// Breaks when the timeline of an earlier job at the same path is taken for that of this job.
TEST(Collect, TakesNoTimelineOfAnEarlierJob) {
    const Scratch scratch;
    std::filesystem::create_directories(scratch.path() / "logs");
    std::ofstream(scratch.path() / "logs/step.0.json") << timeline(0, 5);
    const record::JobFiles files(scratch.path());
    record::Attempt attempt = trained().attempts[0];
    attempt.start = at(3600);
    std::filesystem::create_directories(files.attempts());
    std::ofstream(files.attempt(1)) << record::to_json(attempt);
    const auto facts = collect(files, plan_with("/mnt/job/share/logs/step", scratch.path()), {});
    ASSERT_TRUE(facts);
    EXPECT_TRUE(facts->timelines.ranks.empty());
}

TEST(Collect, ReadsTheRecords) {
    const Scratch scratch;
    const record::JobFiles files(scratch.path());
    std::filesystem::create_directories(files.attempts());
    std::ofstream(files.attempt(1)) << record::to_json(trained().attempts[0]);
    record::write_failure_note(files, {.code = "MountError", .text = "x", .node = "h1"});
    { const record::NodeStepNote note(files, "h1", at(2)); }
    const auto facts = collect(files, {}, {});
    ASSERT_TRUE(facts);
    EXPECT_EQ(facts->attempts, trained().attempts);
    ASSERT_EQ(facts->failures.size(), 1U);
    EXPECT_TRUE(facts->failures[0].time);
    EXPECT_EQ(facts->node_steps.size(), 1U);
    std::ofstream(files.attempt(2)) << "{";
    EXPECT_FALSE(collect(files, {}, {}));
}

}  // namespace
}  // namespace batchai::status
