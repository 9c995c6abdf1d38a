// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.hpp"
#include "status/metrics.hpp"
#include "status/usage/efficiency.hpp"
#include "status/usage/live_usage.hpp"

namespace batchai::status {
namespace {

using std::chrono::seconds;

constexpr std::int64_t mebi = 1 << 20;
constexpr std::int64_t gibi = 1 << 30;

base::Time at(int second) {
    return *base::from_iso8601("2026-06-21T17:00:00") + seconds(second);
}

record::Attempt attempt_in(const std::string& phase, int number = 1) {
    record::Attempt attempt;
    attempt.number = number;
    attempt.nodes = {"h1", "h2"};
    attempt.start = at(0);
    attempt.phases = {{.name = phase, .start = at(1), .end = {}}};
    return attempt;
}

// Two samples that are ten seconds apart: rank `first` is busy, the next one is not.
record::NodeUsage usage_of(const std::string& node, int first, const std::string& step = "1") {
    record::NodeUsage usage{.step = step, .number = 3, .node = node, .head = {}, .samples = {}};
    usage.head = {.start = at(0), .interval = 10, .cpus = 4, .memory = 16 * gibi};
    for (const int time : {10, 20}) {
        record::UsageSample sample{.time = at(time),
                                   .cpu_seconds = 1.0 * time,
                                   .memory = 300 * mebi,
                                   .peak = 2 * gibi,
                                   .threads = 3,
                                   .read = std::int64_t{time} * mebi,
                                   .written = 0,
                                   .received = std::int64_t{2} * time * mebi,
                                   .sent = 0};
        sample.ranks = {{.rank = first, .cpu_seconds = 1.0 * time, .memory = 100 * mebi},
                        {.rank = first + 1, .cpu_seconds = 0, .memory = 200 * mebi}};
        usage.samples.push_back(sample);
    }
    return usage;
}

TEST(LiveNodes, HaveRatesOfTheLastTwoSamples) {
    const auto nodes =
        live_nodes({usage_of("h1", 0), usage_of("h2", 2)}, attempt_in("ranks"), at(25));
    ASSERT_EQ(nodes.size(), 2U);
    EXPECT_EQ(nodes[1].cpu_percent, 100);
    EXPECT_EQ(nodes[1].received, 2.0 * mebi);
    EXPECT_EQ(nodes[1].age, 5);
    EXPECT_EQ(nodes[1].ranks[0].rank, 2);
    EXPECT_EQ(nodes[1].ranks[0].cpu_percent, 100);
    EXPECT_EQ(nodes[1].ranks[1].cpu_percent, 0);
    EXPECT_FALSE(nodes[1].ranks[1].read);
}

// Returns the marked rank; -1: none.
int slow_rank_of(const std::vector<std::optional<double>>& waits) {
    std::vector<LiveNode> nodes(2);
    for (std::size_t i = 0; i < waits.size(); ++i)
        nodes[i % 2].ranks.push_back(
            {.rank = static_cast<int>(i), .node = "h1", .wait_percent = waits[i]});
    mark_slow_rank(nodes);
    int found = -1;
    for (const LiveNode& node : nodes) {
        for (const LiveRank& rank : node.ranks) {
            if (rank.holds_up) found = rank.rank;
        }
    }
    return found;
}

TEST(LiveNodes, NameTheRankForWhichTheOthersWait) {
    EXPECT_EQ(slow_rank_of({50, 50, 1, 49}), 2);
    EXPECT_EQ(slow_rank_of({50, 50, std::nullopt, 49}), -1);
    EXPECT_EQ(slow_rank_of({}), -1);
}

TEST(LiveNodes, AreThoseOfThePresentPhase) {
    auto ended = usage_of("h2", 0);
    ended.ended = true;
    const std::vector<record::NodeUsage> usage{usage_of("h1", 0, "1.preparation"),
                                               usage_of("h1", 0, "1"), usage_of("h1", 0, "1.ps"),
                                               usage_of("h1", 0, "1-1"), ended};
    const auto steps = [&](const record::Attempt& attempt) {
        std::vector<std::string> out;
        for (const LiveNode& node : live_nodes(usage, attempt, at(20)))
            out.push_back(node.step);
        return out;
    };
    EXPECT_EQ(steps(attempt_in("preparation")), (std::vector<std::string>{"1.preparation"}));
    EXPECT_EQ(steps(attempt_in("ranks")), (std::vector<std::string>{"1", "1.ps"}));
    EXPECT_TRUE(steps(attempt_in("image")).empty());
    auto restarted = attempt_in("ranks");
    restarted.restarts.resize(1);
    EXPECT_EQ(steps(restarted), (std::vector<std::string>{"1-1"}));
}

TEST(TopText, IsSortedAndFits) {
    const auto nodes =
        live_nodes({usage_of("h1", 0), usage_of("h2", 2)}, attempt_in("ranks"), at(20));
    const std::string whole = top_text(nodes, TopOrder::node, {});
    EXPECT_NE(whole.find("Recv MiB/s"), std::string::npos) << whole;
    const std::string by_memory = top_text(nodes, TopOrder::memory, {});
    const std::size_t ranks = by_memory.find("Rank");
    EXPECT_LT(by_memory.find("\n     1", ranks), by_memory.find("\n     0", ranks)) << by_memory;
    for (const std::size_t width : {20U, 40U, 80U}) {
        for (const std::size_t height : {8U, 10U, 14U}) {
            const std::string text =
                top_text(nodes, TopOrder::cpu, {.width = width, .height = height});
            const auto lines = base::split(text, '\n');
            EXPECT_LE(lines.size() - 1, height) << text;
            for (const std::string_view line : lines)
                EXPECT_LE(line.size(), std::max<std::size_t>(width, 24)) << text;
        }
    }
    EXPECT_FALSE(top_order("cpuu"));
    EXPECT_EQ(*top_order("CPU"), TopOrder::cpu);
    EXPECT_NO_THROW((void)top_text({}, TopOrder::cpu, {.width = 1, .height = 1}));
}

plan::Plan some_plan() {
    plan::Plan plan;
    plan.allocation.time_limit = std::chrono::hours(10);
    return plan;
}

Efficiency efficiency_after(int run_seconds, std::vector<record::NodeUsage> usage,
                            const plan::Plan& plan = some_plan()) {
    record::Attempt attempt = attempt_in("ranks");
    attempt.end = at(run_seconds);
    return efficiency({.attempt = attempt,
                       .plan = plan,
                       .usage = usage,
                       .accounts = {},
                       .queued = at(-90),
                       .now = at(run_seconds),
                       .ended = true,
                       .succeeded = true});
}

bool advises(const Efficiency& use, std::string_view words) {
    return std::any_of(use.advice.begin(), use.advice.end(), [&](const std::string& sentence) {
        return sentence.find(words) != std::string::npos;
    });
}

TEST(Efficiency, AddsUpNodesAndAdvises) {
    auto usage = std::vector{usage_of("h1", 0), usage_of("h2", 2)};
    usage[1].samples.back().peak = 3 * gibi;
    usage[0].samples.back().gpus = {{.index = 0, .mean_busy = 20}};
    usage[1].samples.back().gpus = {{.index = 0, .mean_busy = 10}};
    const Efficiency use = efficiency_after(100, usage);
    EXPECT_EQ(use.source, "samples");
    EXPECT_EQ(use.cpu_seconds, 40);
    EXPECT_EQ(use.cpu_seconds_allocated, 800);
    EXPECT_EQ(use.memory_peak, 3 * gibi);
    EXPECT_EQ(use.memory_peak_node, "h2");
    EXPECT_EQ(use.gpu_busy_percent, 15);
    EXPECT_EQ(use.queue_seconds, 90);
    EXPECT_EQ(use.run_seconds, 100);
    EXPECT_TRUE(advises(use, "asked for 16 GB of memory a node and used at most 3.0 GB"));
    EXPECT_TRUE(advises(use, "\"mem\": \"3840M\""));
    EXPECT_TRUE(advises(use, "had 4 CPUs a node and used 0.2"));
    EXPECT_TRUE(advises(use, "busy for 15 %"));
    EXPECT_TRUE(advises(use, "asked for 10.0 hours and ran for 100 seconds"));
    EXPECT_FALSE(advises(use, "exclusive"));
    plan::Plan exclusive = some_plan();
    exclusive.allocation.options.push_back({.name = "exclusive", .value = {}});
    EXPECT_TRUE(advises(efficiency_after(100, usage, exclusive), "\"exclusive\": false"));
}

// Breaks when a start of the ranks that failed at once weighs as much as the hours of the next one.
TEST(Efficiency, CountsAGpuOnceForAllStarts) {
    auto usage = std::vector{usage_of("h1", 0), usage_of("h1", 0)};
    usage[0].samples.back().gpus = {{.index = 0, .mean_busy = 0}};
    usage[1].samples.back().gpus = {{.index = 0, .mean_busy = 100}};
    usage[1].samples.back().time = usage[1].head.start + std::chrono::seconds(900);
    usage[0].samples.back().time = usage[0].head.start + std::chrono::seconds(100);
    const Efficiency use = efficiency_after(1000, usage);
    EXPECT_EQ(use.gpus, 1);
    EXPECT_EQ(use.gpu_busy_percent, 90);
    EXPECT_TRUE(use.idle_gpus.empty());
}

TEST(Efficiency, HasNothingToSayOfAJobThatUsesItsShare) {
    auto usage = std::vector{usage_of("h1", 0), usage_of("h2", 2)};
    plan::Plan plan = some_plan();
    plan.allocation.time_limit = std::chrono::minutes(2);
    for (auto& node : usage) {
        node.samples.back().cpu_seconds = 390;
        node.samples.back().peak = 12 * gibi;
    }
    const Efficiency use = efficiency_after(100, usage, plan);
    EXPECT_TRUE(use.advice.empty()) << use.advice.front();
    usage[0].samples.back().peak = 16 * gibi;
    EXPECT_TRUE(advises(efficiency_after(100, usage, plan), "nearly all of the 16 GB"));
    usage[0].samples.back().gpus = {{.index = 1, .mean_busy = 90}, {.index = 5, .mean_busy = 0}};
    EXPECT_TRUE(advises(efficiency_after(100, usage, plan), "never busy (h1:5)"));
}

TEST(Efficiency, NamesTheRankForWhichTheOthersWaited) {
    auto usage = std::vector{usage_of("h1", 0), usage_of("h2", 2)};
    for (auto& node : usage) {
        node.samples.back().time = at(60);
        for (auto& rank : node.samples.back().ranks) {
            rank.waited = rank.rank == 2 ? 3 : 36;
            rank.meetings = 100;
        }
    }
    const Efficiency use = efficiency_after(100, usage);
    EXPECT_EQ(use.wait_percent, 60);
    ASSERT_TRUE(use.awaited_rank);
    EXPECT_EQ(use.awaited_rank->rank, 2);
    EXPECT_TRUE(advises(use, "waited for rank 2 on h2: it was in collectives for 5 % of the time"));
    EXPECT_TRUE(efficiency_after(30, usage).advice_on_waits.empty());
}

TEST(Efficiency, DoesNotJudgeShortJobs) {
    const Efficiency use = efficiency_after(30, {usage_of("h1", 0)});
    ASSERT_EQ(use.advice.size(), 1U);
    EXPECT_TRUE(advises(use, "too short to judge"));
}

TEST(Efficiency, UsesAccountingWithoutSamples) {
    record::Attempt attempt = attempt_in("ranks");
    attempt.end = at(100);
    const std::vector<record::NodeUsage> none;
    const plan::Plan plan;
    EfficiencyFacts facts{.attempt = attempt,
                          .plan = plan,
                          .usage = none,
                          .accounts = slurm::JobAccounts{.cpu_seconds = 10,
                                                         .cpu_seconds_allocated = 800,
                                                         .largest_task = gibi},
                          .queued = at(0),
                          .now = at(100),
                          .ended = true,
                          .succeeded = false};
    const Efficiency use = efficiency(facts);
    EXPECT_EQ(use.source, "accounting");
    EXPECT_EQ(use.task_memory_peak, gibi);
    EXPECT_TRUE(advises(use, "used 0.1 of them"));
    facts.accounts.reset();
    const Efficiency unknown = efficiency(facts);
    EXPECT_TRUE(unknown.source.empty());
    EXPECT_TRUE(unknown.advice.empty());
    EXPECT_TRUE(to_value(unknown)["cpuSeconds"].is_null());
}

TEST(MetricsText, EscapesLabelsAndLeavesOutEmptyFamilies) {
    MetricsText out;
    out.begin("a_total", "counter", "Nothing.");
    out.begin("b", "gauge", "Something.");
    out.add({{"job", "a\"b\\c\nd"}, {"x", ""}}, 0.25);
    out.add({{"job", "e"}}, 12345678901);
    EXPECT_EQ(out.text(),
              "# HELP b Something.\n# TYPE b gauge\n"
              "b{job=\"a\\\"b\\\\c\\nd\",x=\"\"} 0.25\nb{job=\"e\"} 12345678901\n");
}

TEST(MetricsText, CountsJobsAttemptsAndTimes) {
    JobMetrics job;
    job.view.state = slurm::ExecutionState::running;
    job.view.job.key = {"g", "w", "e", "train"};
    job.view.job.slurm_job_id = "12";
    job.view.job.creation_time = at(-10);
    record::Attempt first = attempt_in("preparation");
    first.phases[0].end = at(6);
    first.end = at(100);
    first.ended_by = record::EndedBy::node;
    record::Attempt second = attempt_in("ranks", 2);
    second.start = at(130);
    // Of a task whose first attempt was cut off, so that nobody knows how long it then waited.
    record::Attempt cut_off = attempt_in("ranks");
    cut_off.start = at(20);
    record::Attempt later = attempt_in("ranks", 2);
    later.start = at(500);
    job.attempts = {{first, second}, {cut_off, later}};
    job.retries = 1;
    job.usage = {usage_of("h1", 0)};
    const std::string text = metrics_text({job}, "alice");
    for (const char* const line :
         {"batchai_jobs{user=\"alice\",state=\"running\"} 1\n",
          "batchai_jobs{user=\"alice\",state=\"failed\"} 0\n",
          "batchai_attempts{user=\"alice\",ended_by=\"lostNode\"} 1\n",
          "batchai_retries{user=\"alice\"} 1\n", "batchai_queue_seconds_sum{user=\"alice\"} 70\n",
          "batchai_queue_seconds_count{user=\"alice\"} 3\n",
          "batchai_preparation_seconds_sum{user=\"alice\"} 5\n",
          "batchai_job_cpu_seconds_total{user=\"alice\",group=\"g\",workspace=\"w\",experiment="
          "\"e\",job=\"train\",slurm_job_id=\"12\"} 20\n"})
        EXPECT_NE(text.find(line), std::string::npos) << line << text;
    EXPECT_EQ(text.find("gpu"), std::string::npos);
}

}  // namespace
}  // namespace batchai::status
