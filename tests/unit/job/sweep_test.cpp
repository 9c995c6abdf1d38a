// SPDX-License-Identifier: GPL-2.0-or-later
// The object "sweep".
#include <chrono>
#include <string>

#include "fault_case.hpp"
#include "job/line_pattern.hpp"
#include "job/schema/sweep_parameters.hpp"
#include "job/to_json.hpp"
#include "job_text.hpp"

namespace batchai::job::test {
namespace {

std::string with_sweep(std::string_view settings) {
    return with_properties("\"sweep\": {\n" + std::string(settings) + "}");
}

const FaultCase sweep_faults[] = {
    {"NoParameters", with_sweep("\"parameters\": {}"), 6, 15, 1, "E014",
     "\"parameters\" must not be empty; for example \"lr\": [0.1, 0.01], \"seed\": \"1-8\", or "
     "\"lr\": {\"loguniform\": [1e-5, 0.1]}"},
    {"NoValues", with_sweep("\"parameters\": {\"a\": []}"), 6, 21, 1, "E026",
     "\"a\" has no values; for example \"lr\": [0.1, 0.01], \"seed\": \"1-8\", or \"lr\": "
     "{\"loguniform\": [1e-5, 0.1]}"},
    {"NoRange", with_sweep("\"parameters\": {\"a\": \"8-1\"}"), 6, 21, 5, "E026",
     "\"a\" is not a range of numbers: \"8-1\"; write a range as \"1-8\" or \"0-100:10\", and a "
     "single value in [ ]"},
    {"Name", with_sweep("\"parameters\": {\"a-b\": [1]}"), 6, 16, 5, "E024",
     "\"a-b\" cannot be the name of a parameter; use at most 64 letters, digits and underscores, "
     "and no digit at the start"},
    {"ReservedName", with_sweep("\"parameters\": {\"point\": [1]}"), 6, 16, 7, "E024",
     "\"point\" is the number of the point, so no parameter can have this name; use at most 64 "
     "letters, digits and underscores, and no digit at the start"},
    {"SameVariable", with_sweep("\"parameters\": {\"lr\": [1], \"LR\": [2]}"), 6, 27, 4, "E023",
     "the parameters \"lr\" and \"LR\" would have the same variable; rename one of the two"},
    {"TooManyPoints", with_sweep("\"parameters\": {\"a\": \"1-101\", \"b\": \"1-100\"}"), 6, 15, 1,
     "E016",
     "a sweep has at most 10000 points, and this grid has more; give fewer values, or draw some "
     "points with the mode \"random\""},
    {"ManyTooManyPoints",
     with_sweep("\"parameters\": {\"a\": \"0-1000000000000\", \"b\": \"1-10000\"}"), 6, 15, 1,
     "E016", "\"a\" has more than 10000 values"},
    {"ListOfUnequalLengths",
     with_sweep("\"mode\": \"list\", \"parameters\": {\"a\": [1, 2], \"b\": [1]}"), 6, 31, 1,
     "E018",
     "\"a\" has 2 values and \"b\" has 1, but the mode \"list\" takes one of each for every point; "
     "give all parameters equally many values, or use the mode \"grid\""},
    {"RandomInAGrid", with_sweep("\"parameters\": {\"a\": {\"uniform\": [0, 1]}}"), 6, 15, 1,
     "E018",
     "\"a\" is drawn at random, which needs the mode \"random\"; add \"mode\": \"random\" and "
     "\"samples\""},
    {"NoSamples", with_sweep("\"mode\": \"random\", \"parameters\": {\"a\": [1]}"), 6, 9, 8, "E018",
     "the mode \"random\" needs \"samples\"; add \"samples\": 20"},
    {"LogOfZero",
     with_sweep("\"mode\": \"random\", \"samples\": 1, \"parameters\": {\"a\": {\"loguniform\": "
                "[0, 1]}}"),
     6, 68, 1, "E016",
     "\"loguniform\" of \"a\" must be two numbers, the smaller one first, and both greater than 0; "
     "for example {\"loguniform\": [1e-5, 0.1]}"},
    {"PointsWithDifferentParameters",
     with_sweep("\"mode\": \"list\", \"parameters\": [{\"a\": 1}, {\"b\": 1}]"), 6, 43, 3, "E026",
     "the first point has no parameter \"b\"; give all points the same parameters"},
    {"NoGroup",
     with_sweep(
         "\"parameters\": {\"a\": [1]}, \"metric\": {\"goal\": \"min\", \"pattern\": \"x\"}"),
     6, 64, 3, "E026",
     "\"pattern\" has no group for the number; put the number into one pair of parentheses, as in "
     "\"loss: ([0-9.]+)\", or give its group a name: \"(?P<metric>[0-9.]+)\""},
};

class SweepFaults : public testing::TestWithParam<FaultCase> {};

TEST_P(SweepFaults, AreFoundAtTheirPlace) {
    expect_only_this_fault(GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, SweepFaults, testing::ValuesIn(sweep_faults), case_name);

TEST(Sweep, IsShownAsItWasGiven) {
    const auto parsed = parse(with_sweep(R"x("parameters": {"lr": [0.1, "x"], "seed": "1-8"},
        "maxConcurrent": 2, "metric": {"pattern": "loss=(.*)", "goal": "min"})x"));
    ASSERT_TRUE(parsed.spec);
    EXPECT_EQ(base::format_json(to_json(*parsed.spec)["sweep"]),
              R"x({
  "parameters": {
    "lr": [
      0.1,
      "x"
    ],
    "seed": "1-8"
  },
  "mode": "grid",
  "samples": null,
  "seed": null,
  "maxConcurrent": 2,
  "metric": {
    "pattern": "loss=(.*)",
    "goal": "min",
    "take": "last",
    "ranks": "first"
  }
}
)x");
}

TEST(SweepFlag, HasValuesOrARange) {
    EXPECT_EQ(sweep_parameter_of_flag("lr=0.1,0.01").value().values,
              (std::vector<std::string>{"0.1", "0.01"}));
    EXPECT_EQ(sweep_parameter_of_flag("seed=0-10:5").value().values,
              (std::vector<std::string>{"0", "5", "10"}));
    EXPECT_EQ(sweep_parameter_of_flag("a=--x=$(y)").value().values,
              (std::vector<std::string>{"--x=$(y)"}));
    for (const char* text : {"", "lr", "lr=", "=1", "a b=1", "point=1", "1a=1", "a=\xff"})
        EXPECT_FALSE(sweep_parameter_of_flag(text)) << text;
}

TEST(MetricPattern, FindsItsGroup) {
    const auto one = MetricPattern::compile("loss: (\\S+)").value();
    EXPECT_EQ(one.find("epoch 3 loss: 0.25 end"), "0.25");
    EXPECT_EQ(one.find("nothing"), std::nullopt);
    const auto named = MetricPattern::compile("(train|test) (?P<acc>[0-9.]+)").value();
    EXPECT_EQ(named.find("test 0.5"), "0.5");
    // A group that takes no part in the match.
    EXPECT_EQ(MetricPattern::compile("x(\\d+)?").value().find("xa"), std::nullopt);
}

TEST(LinePattern, MatchesAPartOfALine) {
    const auto pattern = LinePattern::compile("step [0-9]+").value();
    EXPECT_TRUE(pattern.matches("epoch 3, step 12: 0.1"));
    EXPECT_FALSE(pattern.matches("step"));
    for (const char* text : {"(", "(a)\\1", "(?=x)"})
        EXPECT_FALSE(LinePattern::compile(text)) << text;
}

TEST(MetricPattern, RefusesWhatIsNotClear) {
    for (const char* text : {"(", "a", "(a)(b)", "(?P<x>a)(?P<y>b)", "(a)\\1", "(?=x)(a)",
                             "((((a{1,900}){1,900}){1,900}){1,900})"})
        EXPECT_FALSE(MetricPattern::compile(text)) << text;
}

// Breaks when an expression can take exponential time.
TEST(MetricPattern, NeverTakesLong) {
    const auto pattern = MetricPattern::compile("^(?:(?:a+)+)+(b)$").value();
    const std::string line(60'000, 'a');
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(pattern.find(line), std::nullopt);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

}  // namespace
}  // namespace batchai::job::test
