// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/page/chart.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "facts.hpp"
#include "status/page/axis.hpp"

namespace batchai::status {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string draw(const Facts& facts, const ChartStyle& style) {
    return chart_of(facts, bars_of(facts), style);
}

TEST(Chart, HasARowForEachNodeAndAnAxis) {
    const std::string text = draw(trained(), {.width = 65});
    EXPECT_EQ(text,
              "attempt 1: 2026-06-21 10:00:00 UTC, 1 min 40 s, ended by program, exit code 0\n"
              "h1           |opppppppppppppppppppwrrrrrrrrrrrrrrrrrrrrrrrrrrrr\n"
              "h2           | ppppp              wrrrrrrrrrrrrrrrrrrrrrrrrrrrrr\n"
              "h3           |ppppppppppppppppppppwrrrrrrrrrrrrrrrrrrrrrrrrrrrrr\n"
              "             ++-----------------------------+-------------------\n"
              "              0                             1 min\n"
              "\n"
              "o outputs  p preparation  w wire-up  r ranks\n")
        << text;
}

TEST(Chart, FitsIntoTheTerminalWithoutEscapes) {
    for (const int width : {1, 40, 80, 100000}) {
        const std::string text = draw(trained(), {.width = width});
        EXPECT_EQ(text.find('\x1b'), std::string::npos);
        std::size_t longest = 0;
        for (std::size_t begin = 0; begin < text.size();) {
            const std::size_t end = text.find('\n', begin);
            if (text.substr(begin, 7) != "attempt") longest = std::max(longest, end - begin);
            begin = end + 1;
        }
        EXPECT_LE(longest, static_cast<std::size_t>(std::clamp(width, 40, 240)));
    }
}

TEST(Chart, MarksWhatFailedAndWhatRuns) {
    Facts facts = trained();
    facts.attempts[0].phases.back().exit_code = 1;
    facts.attempts[0].failure = record::Failure{.phase = "ranks", .node = "h2"};
    EXPECT_THAT(draw(facts, {.width = 80}), HasSubstr("rrrX\n"));
    EXPECT_THAT(draw(facts, {.width = 80}), HasSubstr("X failed"));
    facts = trained();
    facts.job.ended = false;
    facts.job.end.reset();
    facts.attempts[0].end.reset();
    facts.attempts[0].phases.back().end.reset();
    EXPECT_THAT(draw(facts, {.width = 80}), HasSubstr("rr>\n"));
}

TEST(Chart, UsesColoursAndLinesWhereItMay) {
    const std::string text = draw(trained(), {.width = 80, .utf8 = true, .colour = true});
    EXPECT_THAT(text, HasSubstr("\x1b[34m█"));
    EXPECT_THAT(text, HasSubstr("└┬─"));
    EXPECT_THAT(draw(trained(), {.width = 80, .utf8 = true}), Not(HasSubstr("\x1b")));
}

TEST(Chart, JoinsNodesThatLookTheSame) {
    Facts facts = trained();
    facts.node_steps.clear();
    facts.attempts[0].nodes.clear();
    for (int i = 1; i <= 64; ++i)
        facts.attempts[0].nodes.push_back("n" + std::to_string(i));
    EXPECT_THAT(draw(facts, {.width = 80}), HasSubstr("n2 to n64 "));
}

TEST(Chart, IsSafeOnATerminal) {
    Facts facts = trained();
    facts.attempts[0].nodes[1] = "\x1b]0;evil\x07\xff";
    facts.attempts[0].phases[0].name = "\x1b[2J";
    EXPECT_EQ(draw(facts, {.width = 80}).find('\x1b'), std::string::npos);
}

TEST(Ticks, AreRoundTimes) {
    const auto texts = [](double seconds) {
        std::string all;
        for (const Tick& tick : ticks_of(seconds, 5))
            all += tick.text + ",";
        return all;
    };
    EXPECT_EQ(texts(100), "0,20 s,40 s,1:00 min,1:20 min,1:40 min,");
    EXPECT_EQ(texts(1.2), "0,0.5 s,1.0 s,");
    EXPECT_EQ(texts(7200), "0,30 min,1:00 h,1:30 h,2:00 h,");
    EXPECT_EQ(texts(90000), "0,6 h,12 h,18 h,24 h,");
    EXPECT_EQ(texts(0), "0,");
    EXPECT_EQ(round_up(3.2), 4);
    EXPECT_EQ(round_up(0.02), 0.02);
    EXPECT_EQ(round_up(0), 1);
}

}  // namespace
}  // namespace batchai::status
