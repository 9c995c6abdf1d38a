// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/rank_waits.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace batchai::record {
namespace {

base::Time at(int second) {
    return base::Time() + std::chrono::seconds(second);
}

// A sample of the ranks from `first` on, which meet once a second. Nothing: the rank does not tell.
UsageSample sample_of(int second, int first, const std::vector<std::optional<double>>& waited) {
    UsageSample sample{.time = at(second)};
    for (std::size_t i = 0; i < waited.size(); ++i)
        sample.ranks.push_back({.rank = first + static_cast<int>(i),
                                .waited = waited[i],
                                .meetings = waited[i].value_or(0) > 0 ? second : 0});
    return sample;
}

NodeUsage usage_of(const std::string& step, int number, const std::string& node,
                   std::vector<UsageSample> samples) {
    return {.step = step,
            .number = number,
            .node = node,
            .head = {.start = at(0)},
            .samples = std::move(samples)};
}

TEST(ShareOfWaiting, CountsFromTheFirstSampleThatTells) {
    const std::vector<UsageSample> samples{sample_of(10, 0, {0.0}), sample_of(20, 0, {15.0}),
                                           sample_of(22, 0, {16.0}), sample_of(30, 0, {20.0})};
    EXPECT_EQ(share_of_waiting(samples, 0), 0.5);
    EXPECT_EQ(share_of_waiting(samples, 1), std::nullopt);
    EXPECT_EQ(share_of_waiting({samples[1], samples[2]}, 0), std::nullopt) << "two seconds";
    EXPECT_EQ(share_of_waiting({samples[3], sample_of(40, 0, {1.0})}, 0), 0.0);
    EXPECT_EQ(share_of_waiting({samples[1], sample_of(30, 0, {90.0})}, 0), 1.0);
}

// Breaks when the last sample, which cannot tell, hides the others, or an earlier start is mixed
// in.
TEST(WaitsSinceStart, AreThoseOfTheNewestStart) {
    const auto waits = waits_since_start(
        {usage_of("1", 2, "h1", {sample_of(100, 0, {90.0, 90.0})}),
         usage_of("1-1", 4, "h2", {sample_of(200, 2, {20.0, 100.0}), sample_of(290, 2, {{}, {}})}),
         usage_of("1-1", 4, "h1", {sample_of(100, 0, {8.0, {}}), sample_of(200, 0, {100.0, 0.0})}),
         usage_of("1-1.ps", 5, "h1", {sample_of(200, 7, {3.0})})});
    ASSERT_EQ(waits.size(), 3U);
    EXPECT_EQ(waits[0].rank, 0);
    EXPECT_EQ(waits[0].share, 0.5);
    EXPECT_EQ(waits[1].rank, 2);
    EXPECT_EQ(waits[1].node, "h2");
    EXPECT_EQ(waits[1].share, 0.1);
    EXPECT_EQ(waits[2].share, 0.5);
    EXPECT_TRUE(waits_since_start({}).empty());
}

// Breaks when a coordinator that only met the others at first is said to hold them up, or when a
// rank does not count whose last wait was some time ago.
TEST(WaitsSinceStart, AreOfRanksThatTakePart) {
    auto sample = sample_of(200, 0, {0.5, 100.0, 90.0});
    sample.ranks[0].meetings = 2;
    sample.ranks[2].meetings = 180;
    const auto waits = waits_since_start({usage_of("1", 2, "h1", {sample})});
    ASSERT_EQ(waits.size(), 2U);
    EXPECT_EQ(waits[0].rank, 1);
    EXPECT_TRUE(waits_since_start({usage_of("1", 2, "h1", {sample_of(29, 0, {9.0, 1.0})})}).empty())
        << "half a minute";
}

// Breaks when a rank is blamed that waits as the others do, or the one that does not wait is not.
TEST(AwaitedOne, IsTheOneThatAllOthersWaitFor) {
    EXPECT_EQ(awaited_one({0.5, 0.5, 0.01, 0.49}), 2U);
    EXPECT_EQ(awaited_one({0, 0.3}), 0U);
    EXPECT_EQ(awaited_one({0, 0.2}), std::nullopt);
    EXPECT_EQ(awaited_one({0.5, 0.02, 0.01, 0.49}), std::nullopt);
    EXPECT_EQ(awaited_one({0.09, 0.05, 0.01, 0.09}), std::nullopt);
    EXPECT_EQ(awaited_one({0.5}), std::nullopt);
    EXPECT_EQ(awaited_one({}), std::nullopt);
}

}  // namespace
}  // namespace batchai::record
