// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/history/timeline.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "facts.hpp"
#include "status/history/speed.hpp"

namespace batchai::status {
namespace {

const std::string head =
    R"([
{"ph":"M","pid":3,"tid":0,"ts":0.000,"name":"clock","args":{"version":1,"rank":3,"size":4,"host":"h3","boot":"b","steady_ns":5,"realtime_ns":1782036000000000000}},
{"ph":"M","pid":3,"tid":1,"ts":0.000,"name":"thread_name","args":{"name":"grad/a"}},
{"ph":"M","pid":3,"tid":2,"ts":0.000,"name":"thread_name","args":{"name":"grad/\"b\""}},
)";

std::string event(char type, int row, double ms, const std::string& name,
                  const std::string& rest = {}) {
    return fmt::format("{{\"ph\":\"{}\",\"pid\":3,\"tid\":{},\"ts\":{:.3f},\"name\":\"{}\"{}}},\n",
                       type, row, ms * 1000, name, rest);
}

std::string operation(int row, double submitted, double negotiated, double ended) {
    return event('B', row, submitted, "NEGOTIATE_ALLREDUCE") +
           event('E', row, negotiated, "NEGOTIATE_ALLREDUCE") +
           event('B', row, negotiated, "ALLREDUCE", R"(,"args":{"bytes":1000,"dtype":"float32"})") +
           event('B', row, ended - 1, "SHM_ALLREDUCE") + event('E', row, ended, "SHM_ALLREDUCE") +
           event('E', row, ended, "ALLREDUCE");
}

// Steps of 100 ms. The second gradient of each is submitted after 60 ms, while the first one has
// been reduced; then the rank waits.
std::string steps(int count, double from = 0) {
    std::string out;
    for (int i = 0; i < count; ++i) {
        const double begin = from + 100 * i;
        out += operation(1, begin + 20, begin + 22, begin + 30);
        out += operation(2, begin + 60, begin + 70, begin + 100);
    }
    return out;
}

TEST(Timeline, TellsStepsAndOwnWork) {
    TimelineParser parser;
    parser.read(head + steps(4));
    const auto rank = parser.take();
    ASSERT_TRUE(rank);
    EXPECT_EQ(rank->rank, 3);
    EXPECT_EQ(rank->host, "h3");
    // The first step has no begin.
    ASSERT_EQ(rank->steps.size(), 3U);
    for (const TrainingStep& step : rank->steps) {
        EXPECT_NEAR(step.total, 0.1, 1e-6);
        EXPECT_NEAR(step.own, 0.06, 1e-6);
        EXPECT_NEAR(step.transfer, 0.002, 1e-6);
        EXPECT_EQ(step.bytes, 2000);
    }
    EXPECT_EQ(rank->steps[0].begin, at(0.1));
}

// Breaks when tensors of one bucket count as many times as there are tensors, or when the size of a
// planned operation is forgotten.
TEST(Timeline, CountsABucketOnce) {
    TimelineParser parser;
    std::string text = head;
    for (int i = 0; i < 3; ++i) {
        const std::string size = i == 0 ? R"(,"args":{"bytes":500})" : R"(,"args":{})";
        for (const int row : {1, 2})
            text += event('B', row, 100 * i + 40, "ALLREDUCE", size);
        for (const int row : {1, 2})
            text += event('B', row, 100 * i + 50, "UCX_ALLREDUCE", R"(,"args":{})");
        for (const int row : {1, 2})
            text += event('E', row, 100 * i + 80, "UCX_ALLREDUCE");
        for (const int row : {1, 2})
            text += event('E', row, 100 * i + 90, "ALLREDUCE");
    }
    parser.read(text);
    const auto rank = parser.take();
    ASSERT_EQ(rank->steps.size(), 2U);
    for (const TrainingStep& step : rank->steps) {
        EXPECT_NEAR(step.transfer, 0.03, 1e-6);
        EXPECT_EQ(step.bytes, 1000);
        EXPECT_NEAR(step.own, 0.05, 1e-6);
    }
}

TEST(Timeline, CountsANumberedNameAsOne) {
    TimelineParser parser;
    std::string text = head;
    for (int i = 0; i < 3; ++i) {
        text += event('M', 10 + i, 0, "thread_name",
                      fmt::format(R"(,"args":{{"name":"allreduce.noname.{}"}})", i));
        text += operation(10 + i, 50 * i + 40, 50 * i + 40, 50 * i + 50);
    }
    parser.read(text);
    EXPECT_EQ(parser.take()->steps.size(), 2U);
}

TEST(Timeline, DoesNotJoinWhatAGapDivides) {
    TimelineParser parser;
    parser.read(head + steps(3));
    parser.gap();
    parser.read(steps(3, 5000));
    const auto rank = parser.take();
    EXPECT_FALSE(rank->whole);
    for (const TrainingStep& step : rank->steps)
        EXPECT_NEAR(step.total, 0.1, 1e-6);
    EXPECT_EQ(rank->steps.size(), 3U);  // without the last step before the gap
}

TEST(Timeline, PassesOverWhatItDoesNotKnow) {
    TimelineParser parser;
    std::string text = head + steps(2);
    text += "{\"ph\":\"B\"\n{\"ph\":\"B\",\"pid\":-,\"tid\":1}\n\xff\xfe{}\n{{{{\n";
    text += event('E', 1, 1e300, "ALLREDUCE") + event('E', 99, 5, "NO_BEGIN");
    text += "{\"ph\":\"B\",\"pid\":3,\"tid\":1,\"ts\":nan,\"name\":\"ALLREDUCE\"},\n";
    text += "{\"ph\":\"B\",\"pid\":3,\"tid\":1,\"ts\":1,\"name\":\"\\\n";
    text += std::string(200000, '{') + "\n";
    for (int i = 0; i < 100; ++i)
        text += event('B', 50, i, "QUEUE");
    text += steps(2, 200);
    parser.read(text);
    const auto rank = parser.take();
    ASSERT_TRUE(rank);
    for (const TrainingStep& step : rank->steps) {
        EXPECT_GT(step.total, 0);
        EXPECT_GE(step.own, 0);
        EXPECT_LE(step.own, step.total);
    }
    TimelineParser without_clock;
    without_clock.read(steps(3));
    EXPECT_FALSE(without_clock.take());
    TimelineParser far_away;
    far_away.read(
        R"({"ph":"M","pid":0,"tid":0,"ts":0,"name":"clock","args":{"rank":0,"realtime_ns":9223372036854775807}})");
    EXPECT_FALSE(far_away.take());
}

TEST(Speed, DividesAStepIntoItsParts) {
    Timelines timelines;
    timelines.ranks = {rank_of_steps(1, 40, 0.05, 0.1), rank_of_steps(0, 40, 0.05, 0.1),
                       rank_of_steps(2, 40, 0.08, 0.1)};
    const Speed speed = speed_of(timelines);
    ASSERT_EQ(speed.ranks.size(), 3U);
    EXPECT_EQ(speed.ranks[0].rank, 0);
    EXPECT_NEAR(speed.total, 0.1, 1e-9);
    EXPECT_NEAR(speed.work, 0.05, 1e-9);
    EXPECT_NEAR(speed.waiting, 0.03, 1e-9);
    EXPECT_NEAR(speed.communication, 0.02, 1e-9);
    ASSERT_TRUE(speed.ranks[2].slow_since);
    EXPECT_NEAR(speed.ranks[2].ratio, 1.6, 1e-6);
    EXPECT_EQ(speed.ranks[2].slow_since->step, 1U);
    EXPECT_FALSE(speed.ranks[0].slow_since);
    EXPECT_NEAR(speed.ranks[0].steps_per_second, 10, 1e-6);
}

TEST(Speed, FindsSinceWhenARankIsSlow) {
    Timelines timelines;
    for (int rank = 0; rank < 64; ++rank)
        timelines.ranks.push_back(rank_of_steps(rank, 400, 0.05, 0.1));
    for (std::size_t i = 200; i < 400; ++i)
        timelines.ranks[5].steps[i].own = 0.09;
    const Speed speed = speed_of(timelines);
    for (const RankSpeed& rank : speed.ranks)
        EXPECT_EQ(rank.slow_since.has_value(), rank.rank == 5) << rank.rank;
    EXPECT_NEAR(static_cast<double>(speed.ranks[5].slow_since->step), 200, 10);
    EXPECT_NEAR(speed.ranks[5].ratio, 1.8, 1e-6);
    // A rank that was slow for a while only is not slow.
    for (std::size_t i = 300; i < 400; ++i)
        timelines.ranks[5].steps[i].own = 0.05;
    EXPECT_FALSE(speed_of(timelines).ranks[5].slow_since);
}

TEST(Speed, OfOneRankOrNoneIsKnownOrNot) {
    Timelines timelines;
    EXPECT_FALSE(speed_of(timelines).known());
    timelines.ranks = {rank_of_steps(0, 1, 0.05, 0.1)};
    EXPECT_TRUE(speed_of(timelines).known());
    EXPECT_FALSE(speed_of(timelines).ranks[0].slow_since);
}

}  // namespace
}  // namespace batchai::status
