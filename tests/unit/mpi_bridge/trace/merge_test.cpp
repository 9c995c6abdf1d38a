// SPDX-License-Identifier: Apache-2.0
#include "tools/timeline/merge.hpp"

#include <array>
#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "trace/timeline.hpp"
#include "trace_files.hpp"

namespace mpi_bridge::timeline_tool {
namespace {

using test::contents;
using test::Directory;
using test::load;
using test::put;
using testing::HasSubstr;

constexpr std::int64_t second = 1'000'000'000;

ClockEvent clock_at(int rank, std::string boot, std::int64_t steady, std::int64_t realtime) {
    return {rank, 4, "host", std::move(boot), steady, realtime};
}

// A rank's file: its clock, and one event 1.5 us after its start.
std::string file_of(int rank, const std::string& boot, std::int64_t steady, std::int64_t realtime) {
    const std::string number = std::to_string(rank);
    return R"([
{"ph":"M","pid":)" +
           number + R"(,"tid":0,"ts":0.000,"name":"clock","args":{"version":1,"rank":)" + number +
           R"(,"size":3,"host":"h","boot":")" + boot + R"(","steady_ns":)" +
           std::to_string(steady) + R"(,"realtime_ns":)" + std::to_string(realtime) + R"(}},
{"ph":"B","pid":)" +
           number + R"(,"tid":1,"ts":1.500,"name":"ALLREDUCE","args":{"text":"{\"]["}}
]
)";
}

TEST(Align, TakesTheSteadyClockWithinAKernelAndTheTimeOfDayBetweenKernels) {
    const std::array<ClockEvent, 4> clocks{
        clock_at(0, "a", 1000, 50 * second),
        // Its time of day was corrected by 300 ns meanwhile, which must not count.
        clock_at(1, "a", 3000, 50 * second + 2300), clock_at(2, "b", 77, 50 * second + 500),
        clock_at(3, "", 1000, 50 * second + 900)};
    EXPECT_EQ(align(clocks), (std::vector<std::int64_t>{0, 2000, 500, 900}));
}

TEST(Align, BelievesTheTimeOfDayWhereSteadyClocksHaveNothingInCommon) {
    const std::array<ClockEvent, 2> clocks{clock_at(0, "a", 100 * second, 500 * second),
                                           clock_at(1, "a", 3 * second, 500 * second + 10)};
    EXPECT_EQ(align(clocks), (std::vector<std::int64_t>{0, 10}));
}

TEST(Align, BeginsWithTheEarliest) {
    const std::array<ClockEvent, 2> clocks{clock_at(0, "a", 10, 20), clock_at(1, "b", 10, 5)};
    EXPECT_EQ(align(clocks), (std::vector<std::int64_t>{15, 0}));
    EXPECT_TRUE(align({}).empty());
}

class MergeTest : public testing::Test {
  protected:
    // Files with these texts, for ranks 0, 1, ...
    std::vector<std::string> write(const std::vector<std::string>& texts) {
        std::vector<std::string> paths;
        for (const std::string& text : texts) {
            paths.push_back(directory_.file("t." + std::to_string(paths.size()) + ".json"));
            put(paths.back(), text);
        }
        return paths;
    }
    [[nodiscard]] std::string output() const { return directory_.file("merged.json"); }

    // The text of the failure that merging must be.
    std::string refused(const std::vector<std::string>& inputs) {
        const auto report = merge(inputs, output());
        EXPECT_FALSE(report);
        EXPECT_FALSE(std::filesystem::exists(output()));
        return report ? "" : report.error().text;
    }

    Directory directory_;
};

TEST_F(MergeTest, MovesEachRankToTheCommonClock) {
    const auto inputs =
        write({file_of(0, "a", 2000, second), file_of(1, "a", 5000, second + 3000)});
    const auto report = merge(inputs, output());
    ASSERT_TRUE(report) << report.error().text;
    EXPECT_EQ(report->events, 2U);
    EXPECT_EQ(report->missing, std::vector<int>{2});
    EXPECT_TRUE(report->torn.empty());
    const auto events = load(output());
    ASSERT_EQ(events.size(), 2U);
    EXPECT_EQ(events[0]["ts"].as<double>(), 1.5);
    EXPECT_EQ(events[1]["ts"].as<double>(), 4.5);
    EXPECT_EQ(events[1]["args"]["text"], "{\"][");
}

TEST_F(MergeTest, JoinsWhatTimelinesWrite) {
    std::vector<std::string> inputs;
    for (int rank = 0; rank < 3; ++rank) {
        Timeline timeline;
        ASSERT_TRUE(timeline.start(directory_.file("t"), rank, 3));
        for (int i = 0; i < 1000; ++i) {
            timeline.begin({"t", Phase::operation});
            timeline.end({"t", Phase::operation});
        }
        ASSERT_TRUE(timeline.stop());
        inputs.push_back(directory_.file("t." + std::to_string(rank) + ".json"));
    }
    const auto report = merge(inputs, output());
    ASSERT_TRUE(report) << report.error().text;
    const auto events = load(output());
    EXPECT_EQ(test::count(events, "E", "ALLREDUCE"), 3000U);
    // They ran one after the other, so that the common clock runs through.
    EXPECT_EQ(test::check_nesting(events), 0U);
}

TEST_F(MergeTest, UsesWhatAKilledRankLeftWhereverItBroke) {
    const std::string whole = file_of(0, "a", 0, 0);
    const std::size_t clock_end = whole.find(",\n{\"ph\":\"B\"");
    const std::size_t event_end = whole.find("\n]");
    for (std::size_t length = clock_end; length < event_end + 2; ++length) {
        const auto report = merge(write({whole.substr(0, length)}), output());
        ASSERT_TRUE(report) << length << report.error().text;
        EXPECT_EQ(report->torn.size(), 1U) << length;
        EXPECT_EQ(report->events, length >= event_end ? 1U : 0U) << length;
        EXPECT_NO_THROW(load(output()));
    }
    for (const std::string& tail :
         {std::string(100, '\0'), std::string(",]\n"), std::string(",\n\n")}) {
        const auto report = merge(write({whole.substr(0, event_end) + tail}), output());
        ASSERT_TRUE(report) << report.error().text;
        EXPECT_EQ(report->torn.size(), 1U);
        EXPECT_EQ(report->events, 1U);
    }
}

TEST_F(MergeTest, NamesFileAndByteOfAFault) {
    const std::string whole = file_of(0, "a", 0, 0);
    const std::size_t second_event = whole.find("{\"ph\":\"B\"");
    const std::string head = whole.substr(0, second_event);
    const std::string path = directory_.file("t.0.json");
    const std::string at = path + ": byte " + std::to_string(second_event) + ": ";

    EXPECT_EQ(refused(write({head + "7]"})), at + "\"7\" where an event is expected");
    EXPECT_THAT(refused(write({head + "{nonsense}]"})), HasSubstr(at + "this event is not JSON"));
    EXPECT_EQ(refused(write({head + R"({"ph":"B","pid":0,"tid":1}])"})),
              at + "this event lacks one of ph, pid, tid and ts");
    EXPECT_THAT(refused(write({whole + "["})), HasSubstr("text after the end of the array"));
    EXPECT_EQ(refused(write({""})), path + ": byte 0: the file is empty");
    EXPECT_EQ(refused(write({"{}"})), path + ": byte 0: no JSON array of trace events");
    EXPECT_EQ(refused(write({head + std::string(2 << 20, '{')})),
              at + "an event of more than a mebibyte");
}

TEST_F(MergeTest, RefusesWhatIsNoRanksTimeline) {
    EXPECT_THAT(refused(write({R"([{"ph":"B","pid":0,"tid":1,"ts":0}])"})),
                HasSubstr("t.0.json: byte 1: not the timeline of one rank"));
    EXPECT_THAT(refused(write({"[]"})), HasSubstr("not the timeline of one rank"));
    std::string newer = file_of(0, "a", 0, 0);
    newer.replace(newer.find("\"version\":1"), 11, "\"version\":2");
    EXPECT_THAT(refused(write({newer})), HasSubstr("newer than this tool's 1"));
    EXPECT_THAT(refused({directory_.file("missing")}), HasSubstr("No such file or directory"));
}

TEST_F(MergeTest, RefusesTwoFilesOfOneRankAndItsOwnOutput) {
    const auto inputs = write({file_of(0, "a", 0, 0), file_of(0, "a", 0, 0)});
    EXPECT_THAT(refused(inputs), HasSubstr("t.1.json: byte 0: the timeline of rank 0, as "));
    const std::string before = contents(inputs[0]);
    const auto report = merge(std::vector<std::string>{inputs[0]}, inputs[0]);
    ASSERT_FALSE(report);
    EXPECT_THAT(report.error().text, HasSubstr("is both input and output"));
    EXPECT_EQ(contents(inputs[0]), before);
}

// Of the program itself: exit status and both outputs.
std::pair<int, std::string> run_tool(const std::string& arguments) {
    std::FILE* const pipe =
        popen((std::string(TIMELINE_TOOL) + ' ' + arguments + " 2>&1").c_str(), "r");
    std::string output;
    std::array<char, 4096> piece{};
    while (const std::size_t bytes = std::fread(piece.data(), 1, piece.size(), pipe))
        output.append(piece.data(), bytes);
    return {WEXITSTATUS(pclose(pipe)), output};
}

TEST_F(MergeTest, TheProgramTellsWhatItDid) {
    const auto inputs = write({file_of(0, "a", 0, 0), file_of(1, "a", 0, 0).substr(0, 200)});
    const auto [status, said] =
        run_tool("merge -o " + output() + ' ' + inputs[0] + ' ' + inputs[1]);
    EXPECT_EQ(status, 0);
    EXPECT_THAT(said, HasSubstr("merged.json: 1 events of 2 ranks\n"));
    EXPECT_THAT(said, HasSubstr("t.1.json: lacks its end"));
    EXPECT_THAT(said, HasSubstr("no file of 1 of the job's ranks, the first of which is rank 2"));
    EXPECT_NO_THROW(load(output()));
    const auto [summary_status, summary] = run_tool("summary " + inputs[0]);
    EXPECT_EQ(summary_status, 0);
    EXPECT_THAT(summary, HasSubstr("Without an end:"));
}

TEST_F(MergeTest, TheProgramRefusesWrongCommandLines) {
    for (const char* wrong : {"", "split x", "merge x", "merge -o", "merge -o y", "summary",
                              "summary -o y x", "summary --top many x"}) {
        EXPECT_EQ(run_tool(wrong).first, 2) << wrong;
    }
    EXPECT_EQ(run_tool("--help").first, 0);
    EXPECT_EQ(run_tool("summary /nonexistent").first, 1);
}

}  // namespace
}  // namespace mpi_bridge::timeline_tool
