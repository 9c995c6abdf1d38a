// SPDX-License-Identifier: GPL-2.0-or-later
// Which ranks are much slower than the others. watch.bats has a job with one.
#include "run/watch/slow_rank.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchai::run {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// Ranks of nodes with two each. One look in ten seconds.
class SlowRankTest : public testing::Test {
  protected:
    // Which share of the time a rank works during a look.
    using Work = std::function<double(int rank, int look)>;

    // Returns what is said first until so many looks, and at which; empty: nothing.
    std::string said(int ranks, int looks, const Work& work) {
        waited_.resize(static_cast<std::size_t>(ranks));
        meetings_.resize(static_cast<std::size_t>(ranks), 1);
        for (int i = looks_; i < looks; ++i) {
            std::vector<record::NodeUsage> usage;
            for (int rank = 0; rank < ranks; ++rank) {
                auto& waited = waited_[static_cast<std::size_t>(rank)];
                auto& meetings = meetings_[static_cast<std::size_t>(rank)];
                const double share = work(rank, i);
                waited += 10 * (1 - share);
                // One that only works meets nobody.
                if (share < 1) meetings += 10;
                if (rank % 2 == 0) usage.push_back(node_at(rank / 2, i));
                usage.back().samples[0].ranks.push_back(
                    {.rank = rank, .waited = waited, .meetings = meetings});
            }
            meter_->look(usage);
            if (const auto change = meter_->poll())
                return std::to_string(i) + " " + text_of(*change);
        }
        return {};
    }

    void SetUp() override {
        meter_ = std::make_unique<SlowRankMeter>(watch_);
        looks_ = 0;
        waited_.clear();
        meetings_.clear();
    }

    plan::Watch watch_{.slow_percent = 150, .slow_over = 100};
    std::unique_ptr<SlowRankMeter> meter_;
    int looks_ = 0;  // that have been

  private:
    // The clock of each node has a time of its own.
    static record::NodeUsage node_at(int node, int look) {
        record::NodeUsage usage{.step = "1", .number = 1, .node = "n" + std::to_string(node)};
        record::UsageSample sample;
        sample.time = base::Time() + std::chrono::seconds(1000 * node + 10 * look);
        usage.samples = {sample};
        return usage;
    }
    std::vector<double> waited_;
    std::vector<std::int64_t> meetings_;
};

TEST_F(SlowRankTest, NamesTheRankWithItsFactor) {
    EXPECT_EQ(said(4, 30, [](int rank, int) { return rank == 2 ? 0.8 : 0.4; }),
              "11 rank 2 on n1 has needed 2.0 times as long as the median of the others between "
              "collectives for 100 s (\"watch.slowRank\")");
    EXPECT_TRUE(meter_->is_slow());
}

// Breaks when half of the ranks cannot be slow, as those of one of two nodes.
TEST_F(SlowRankTest, NamesAllRanksOfASlowNode) {
    EXPECT_THAT(said(4, 30, [](int rank, int) { return rank >= 2 ? 0.6 : 0.3; }),
                HasSubstr("ranks 2-3 on n1 have needed up to 2.0 times as long"));
}

TEST_F(SlowRankTest, LeavesSmallDifferencesAlone) {
    EXPECT_THAT(said(4, 30, [](int rank, int) { return rank == 2 ? 0.55 : 0.4; }), IsEmpty());
    // Twice as long, but all lose little by it.
    EXPECT_THAT(said(4, 30, [](int rank, int) { return rank == 2 ? 0.16 : 0.08; }), IsEmpty());
}

// Breaks when most ranks are accused because a few are fast.
TEST_F(SlowRankTest, DoesNotAccuseTheMajority) {
    EXPECT_THAT(said(3, 30, [](int rank, int) { return rank == 0 ? 0.3 : 0.6; }), IsEmpty());
    EXPECT_THAT(said(5, 30, [](int rank, int) { return rank < 2 ? 0.3 : 0.6; }), IsEmpty());
}

// Breaks when a rank is slow that writes a checkpoint, or evaluates, now and then or for long. What
// the others wait meanwhile is told when it is over.
TEST_F(SlowRankTest, IsSilentAboutWorkThatOneRankDoesForAll) {
    for (const int period : {3, 4, 5, 10, 20}) {
        SetUp();
        EXPECT_THAT(said(4, 100,
                         [&](int rank, int look) {
                             const int of_one = 2 * period / 5;
                             if (look % period < of_one) return 1.0;
                             const bool is_over = look % period == of_one;
                             return is_over && rank != 0 ? 0.5 - of_one : 0.5;
                         }),
                    IsEmpty())
            << period;
    }
    SetUp();
    EXPECT_THAT(said(4, 60, [](int rank, int) { return rank == 0 ? 0.9 : 0.0; }), IsEmpty());
}

// Breaks when the last rank, for which all others wait, must itself wait for a time that a coarse
// clock can measure.
TEST_F(SlowRankTest, NamesARankThatWaitsForNoTimeAtAll) {
    EXPECT_THAT(said(4, 30, [](int rank, int) { return rank == 2 ? 0.999999 : 0.4; }),
                HasSubstr("rank 2 on n1 has needed 2.5 times"));
}

// Breaks when two nodes that become slow one after the other are told one after the other.
TEST_F(SlowRankTest, NamesThoseTogetherThatBecomeSlowTogether) {
    EXPECT_THAT(said(8, 30,
                     [](int rank, int look) {
                         if (rank == 2) return 0.8;
                         return rank == 4 && look > 0 ? 0.8 : 0.4;
                     }),
                HasSubstr("ranks 2, 4 on n1, n2 have needed"));
}

// Breaks when a rank is slow that has joined, or left, or only met the others at first.
TEST_F(SlowRankTest, IsSilentAboutARankThatDoesNotWaitAtAll) {
    EXPECT_THAT(said(4, 60, [](int rank, int look) { return rank == 2 && look > 0 ? 1.0 : 0.4; }),
                IsEmpty());
}

TEST_F(SlowRankTest, NamesAnotherRankThatBecomesSlow) {
    const auto work = [](int rank, int look) {
        return rank == 2 || (rank == 5 && look >= 20) ? 0.8 : 0.4;
    };
    EXPECT_THAT(said(6, 15, work), StartsWith("11 rank 2 on n1"));
    looks_ = 12;
    EXPECT_THAT(said(6, 60, work), HasSubstr(" ranks 2, 5 on n1, n2 have needed"));
}

TEST_F(SlowRankTest, SaysOnceThatItBeginsAndThatItIsOver) {
    const auto slow_until_look_20 = [](int rank, int look) {
        return rank == 2 && look < 20 ? 0.8 : 0.4;
    };
    EXPECT_THAT(said(4, 12, slow_until_look_20), StartsWith("11 rank 2"));
    looks_ = 12;
    EXPECT_EQ(said(4, 30, slow_until_look_20),
              "22 no rank is that much slower than the others any more (\"watch.slowRank\")");
    looks_ = 23;
    EXPECT_THAT(said(4, 60, slow_until_look_20), IsEmpty());
}

TEST_F(SlowRankTest, KnowsNothingOfRanksWithoutCollectives) {
    EXPECT_THAT(said(1, 30, [](int, int) { return 0.5; }), IsEmpty());
    EXPECT_THAT(said(4, 30, [](int, int) { return 1.0; }), IsEmpty());
}

// Breaks when the ranks that are left are compared with one that has ended, or are never compared.
TEST_F(SlowRankTest, ForgetsARankOfWhichNothingIsHeard) {
    record::NodeUsage gone{.step = "1", .number = 1, .node = "n9"};
    record::UsageSample sample;
    sample.ranks = {{.rank = 9, .waited = 5.0, .meetings = 5}};
    gone.samples = {sample};
    meter_->look({gone});
    EXPECT_THAT(said(4, 60, [](int rank, int) { return rank == 2 ? 0.8 : 0.4; }),
                HasSubstr("rank 2 on n1"));
}

}  // namespace
}  // namespace batchai::run
