// SPDX-License-Identifier: GPL-2.0-or-later
#include <limits>

#include <gtest/gtest.h>

#include "status/sweep/metric.hpp"

namespace batchai::status {
namespace {

using job::MetricGoal;
using job::MetricTake;

std::string found(std::string_view text, MetricGoal goal, MetricTake take,
                  std::size_t piece = 1'000'000) {
    const auto pattern = job::MetricPattern::compile("acc=(\\S+)").value();
    MetricFinder finder(pattern, goal, take);
    for (std::size_t at = 0; at < text.size(); at += piece)
        finder.feed(text.substr(at, piece));
    finder.finish();
    return finder.found() ? finder.found()->text : "none";
}

TEST(MetricFinder, TakesTheLastOrTheBest) {
    const std::string text = "acc=0.5\nacc=0.9 x\nacc=oops\nacc=0.7";
    EXPECT_EQ(found(text, MetricGoal::max, MetricTake::last), "0.7");
    EXPECT_EQ(found(text, MetricGoal::max, MetricTake::best), "0.9");
    EXPECT_EQ(found(text, MetricGoal::min, MetricTake::best), "0.5");
    EXPECT_EQ(found("", MetricGoal::min, MetricTake::best), "none");
    EXPECT_EQ(found("accuracy 5\n", MetricGoal::min, MetricTake::last), "none");
}

TEST(MetricFinder, ReadsLinesThatComeInPieces) {
    for (std::size_t piece = 1; piece < 12; ++piece)
        EXPECT_EQ(found("a\r\nacc=1.25\racc=-3e-2\n", MetricGoal::min, MetricTake::last, piece),
                  "-3e-2");
}

TEST(MetricFinder, NeverTakesTextForTheBestNumber) {
    EXPECT_EQ(found("acc=3\nacc=nan\n", MetricGoal::min, MetricTake::best), "3");
    EXPECT_EQ(found("acc=nan\nacc=3\n", MetricGoal::min, MetricTake::best), "3");
    EXPECT_EQ(found("acc=3\nacc=-inf\n", MetricGoal::min, MetricTake::best), "3");
    // A run that has diverged must not look like a good one.
    EXPECT_EQ(found("acc=3\nacc=nan\n", MetricGoal::min, MetricTake::last), "nan");
}

TEST(MetricFinder, LooksOnlyAtTheBeginOfAHugeLine) {
    std::string text = "acc=1 " + std::string(10 << 20, 'x') + " acc=2\nacc=3 ";
    text += std::string(10 << 20, 'y');
    EXPECT_EQ(found(text, MetricGoal::max, MetricTake::last, 65536), "3");
    EXPECT_EQ(found(std::string(MetricFinder::longest_line, 'x') + "acc=2\n", MetricGoal::max,
                    MetricTake::last),
              "none");
}

TEST(Metric, IsComparedByItsGoal) {
    const Metric one{.value = 1, .text = {}};
    const Metric two{.value = 2, .text = {}};
    const Metric none{.value = std::numeric_limits<double>::quiet_NaN(), .text = {}};
    EXPECT_TRUE(two.better_than(one, MetricGoal::max));
    EXPECT_TRUE(one.better_than(two, MetricGoal::min));
    EXPECT_FALSE(one.better_than(one, MetricGoal::min));
    EXPECT_TRUE(one.better_than(none, MetricGoal::min));
    EXPECT_FALSE(none.better_than(one, MetricGoal::min));
}

}  // namespace
}  // namespace batchai::status
