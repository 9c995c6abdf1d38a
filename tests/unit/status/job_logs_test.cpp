// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/job_logs.hpp"

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/file.hpp"
#include "base/ids.hpp"
#include "record/attempt.hpp"
#include "record/rank_logs.hpp"

namespace batchai::status {
namespace {

namespace fs = std::filesystem;
using record::RankStream;

TEST(RankList, HasNumbersAndRanges) {
    EXPECT_EQ(rank_list("0,3-5").value(), (std::vector<int>{0, 3, 4, 5}));
    for (const char* wrong :
         {"", "a", "3-1", "1,", "-1", "[0]", "0-99999999999", "1 2", "0-4000000"})
        EXPECT_FALSE(rank_list(wrong)) << wrong;
}

TEST(TimeSince, IsATimeOrHowLongAgoItWas) {
    const base::Time now = base::from_iso8601("2026-01-02T03:04:05").value();
    EXPECT_EQ(time_since("90s", now).value(), base::from_iso8601("2026-01-02T03:02:35").value());
    EXPECT_EQ(time_since("2h", now).value(), base::from_iso8601("2026-01-02T01:04:05").value());
    EXPECT_EQ(time_since("1d", now).value(), base::from_iso8601("2026-01-01T03:04:05").value());
    EXPECT_EQ(time_since("2025-12-31T23:59:59Z", now).value(),
              base::from_iso8601("2025-12-31T23:59:59").value());
    for (const char* wrong : {"", "m", "-5m", "1.5h", "5", "5w", "99999999999s", "yesterday"})
        EXPECT_FALSE(time_since(wrong, now)) << wrong;
}

TEST(ChosenRanks, AreThoseOfBothLists) {
    const record::RankPlaces places{.nodes = {"a", "a", "b", "b"}};
    EXPECT_EQ(chosen_ranks(places, {}), (std::vector<bool>{true, true, true, true}));
    EXPECT_EQ(chosen_ranks(places, {.ranks = {{1, 2, 9}}, .nodes = {"b"}}),
              (std::vector<bool>{false, false, true, false}));
    EXPECT_EQ(check_choice({places}, {.ranks = {{4}}, .nodes = {}}).error().hint,
              "its ranks are 0 to 3");
    EXPECT_EQ(check_choice({places}, {.ranks = {}, .nodes = {"c"}}).error().hint,
              "its ranks are on a, b");
    EXPECT_FALSE(check_choice({places}, {.ranks = {{0}}, .nodes = {"b"}}));
    const record::RankPlaces fewer{.nodes = {"b", "d"}};
    EXPECT_TRUE(check_choice({places, fewer}, {.ranks = {{0, 3}}, .nodes = {"a", "d"}}));
    EXPECT_FALSE(check_choice({places, fewer}, {.ranks = {{3}}, .nodes = {"d"}}));
}

TEST(LogPrinter, EndsALineBeforeAnotherStreamGoesOn) {
    std::string out;
    LogPrinter printer({"a ", "b "}, [&](std::string_view bytes) {
        out += bytes;
        return true;
    });
    printer.print(0, RankStream::output, "one\ntw");
    printer.print(0, RankStream::output, "o");
    printer.print(1, RankStream::output, "three\n\n");
    printer.print(0, RankStream::error, "four");
    printer.end_line();
    printer.flush();
    EXPECT_EQ(out, "a one\na two\nb three\nb \na four\n");
}

// Breaks when a progress bar writes over the name of its rank, or a line has that name twice.
TEST(LogPrinter, MarksWhatIsPrintedOverALine) {
    std::string out;
    LogPrinter printer({"a ", "b "}, [&](std::string_view bytes) {
        out += bytes;
        return true;
    });
    printer.print(0, RankStream::error, "\r10 %");
    printer.print(0, RankStream::error, "\r20 %\r");
    printer.print(0, RankStream::error, "30 %\n");
    printer.print(1, RankStream::output, "of Windows\r\n\r\n40 %\r");
    printer.print(0, RankStream::error, "\r50 %");
    printer.end_line();
    printer.flush();
    EXPECT_EQ(out,
              "\ra 10 %\ra 20 %\ra 30 %\n"
              "b of Windows\r\n\rb \nb 40 %\r\n"
              "\ra 50 %\n");
}

TEST(LogPrinter, StopsWithTheReader) {
    int calls = 0;
    LogPrinter printer({}, [&](std::string_view) { return ++calls < 1; });
    EXPECT_FALSE(printer.print(0, RankStream::output, std::string(1U << 20U, 'x')));
    EXPECT_FALSE(printer.print(0, RankStream::output, "more"));
    EXPECT_FALSE(printer.flush());
    EXPECT_EQ(calls, 1);
}

// A job of two ranks, whose files the tests write as `batchai run` does.
class JobLogs : public testing::Test {
  protected:
    void SetUp() override {
        fs::create_directories(files_.attempts());
        begin(1);
    }
    void TearDown() override { fs::remove_all(directory_); }

    void begin(int attempt) {
        start_ = std::to_string(attempt);
        record::Attempt record;
        record.number = attempt;
        ASSERT_TRUE(base::write_atomically(files_.attempt(attempt), record::to_json(record)));
        ASSERT_TRUE(record::write_rank_places(files_, start_, {.nodes = {"a", "b"}}));
        fs::create_directories(logs_ / record::rank_log_directory(start_));
    }
    void print(std::uint32_t rank, RankStream stream, const std::string& text, bool note = true) {
        const fs::path path = logs_ / record::rank_log(start_, stream, std::to_string(rank));
        const std::uint64_t before = fs::exists(path) ? fs::file_size(path) : 0;
        std::ofstream(path, std::ios::app) << text;
        if (!note) return;
        record::PieceWriter pieces(files_.rank_pieces(start_).string());
        pieces.add(rank, stream, before, text.size());
        pieces.flush();
    }
    JobLogReader reader(LogChoice choice = {}, std::optional<int> attempt = {}) {
        return JobLogReader(files_, logs_, std::move(choice), attempt,
                            [this](const record::RankPlaces&, const std::vector<bool>&) {
                                return LogPrinter({"0 ", "1 "}, [this](std::string_view bytes) {
                                    seen_ += bytes;
                                    return true;
                                });
                            });
    }
    std::string all(const LogChoice& choice = {}, std::optional<int> attempt = {}) {
        seen_.clear();
        auto one = reader(choice, attempt);
        while (one.pump(true).value() == JobLogReader::Found::more) {
        }
        return seen_;
    }

    fs::path directory_ = fs::temp_directory_path() / ("job-logs-" + base::random_uuid());
    fs::path logs_ = directory_ / "logs";
    record::JobFiles files_{directory_ / "job"};
    std::string start_;
    std::string seen_;
};

TEST_F(JobLogs, AreInTheOrderInWhichTheyWereSeen) {
    print(0, RankStream::output, "first\nsecond\n");
    print(1, RankStream::error, "third\n");
    print(0, RankStream::output, "fourth\n");
    EXPECT_EQ(all(), "0 first\n0 second\n1 third\n0 fourth\n");
    EXPECT_EQ(all({.ranks = {{0}}, .nodes = {}}), "0 first\n0 second\n0 fourth\n");
    EXPECT_EQ(all({.ranks = {}, .nodes = {}, .output = false}), "1 third\n");
}

TEST_F(JobLogs, GoOnWhereTheyWereLeft) {
    auto following = reader();
    ASSERT_TRUE(following.pump(false));
    EXPECT_TRUE(following.started());
    print(0, RankStream::output, "one\n");
    EXPECT_EQ(following.pump(false).value(), JobLogReader::Found::something_new);
    EXPECT_EQ(following.pump(false).value(), JobLogReader::Found::nothing_new);
    print(1, RankStream::output, "two\n");
    ASSERT_TRUE(following.pump(false));
    begin(2);
    print(1, RankStream::output, "again\n");
    ASSERT_TRUE(following.pump(true));
    EXPECT_EQ(seen_, "0 one\n1 two\n1 again\n");
    EXPECT_EQ(all(), "1 again\n") << "of the newest attempt";
    EXPECT_EQ(all({}, 1), "0 one\n1 two\n");
    EXPECT_EQ(all({}, 3), "");
}

// Breaks when ranks or nodes that an elastic job has lost make the others unreadable.
TEST_F(JobLogs, AreThoseOfEveryStartThatHasTheRanks) {
    print(0, RankStream::output, "zero\n");
    print(1, RankStream::output, "one\n");
    record::Attempt record;
    record.restarts.resize(1);
    ASSERT_TRUE(base::write_atomically(files_.attempt(1), record::to_json(record)));
    start_ = "1-1";
    ASSERT_TRUE(record::write_rank_places(files_, start_, {.nodes = {"b"}}));
    fs::create_directories(logs_ / record::rank_log_directory(start_));
    print(0, RankStream::output, "zero again\n");
    EXPECT_EQ(all(), "0 zero\n1 one\n0 zero again\n");
    EXPECT_EQ(all({.ranks = {{1}}, .nodes = {}}), "1 one\n");
    EXPECT_EQ(all({.ranks = {{1}}, .nodes = {}, .tail = 1}), "1 one\n");
    EXPECT_EQ(all({.ranks = {}, .nodes = {"a"}}), "0 zero\n");
    EXPECT_EQ(all({.ranks = {}, .nodes = {"b"}}), "1 one\n0 zero again\n");
    EXPECT_EQ(all({.ranks = {{0, 1}}, .nodes = {}, .tail = 9}), "0 zero again\n");
    EXPECT_FALSE(reader({.ranks = {{2}}, .nodes = {}}).pump(true));
    using Ranks = std::map<int, std::string>;
    EXPECT_EQ(reader().ranks().value(), (Ranks{{0, "a"}, {1, "b"}}));
    EXPECT_EQ(reader({.ranks = {}, .nodes = {}, .tail = 1}).ranks().value(),
              (Ranks{{0, "b"}, {1, "b"}}));
}

// Breaks when following ends with an error once an attempt has other nodes than the one before it.
TEST_F(JobLogs, GoOnWithoutTheNodesThatANewAttemptLacks) {
    print(0, RankStream::output, "one\n");
    auto following = reader({.ranks = {}, .nodes = {"a"}});
    ASSERT_TRUE(following.pump(false));
    begin(2);
    ASSERT_TRUE(record::write_rank_places(files_, start_, {.nodes = {"c", "d"}}));
    print(0, RankStream::output, "elsewhere\n");
    ASSERT_TRUE(following.pump(true));
    EXPECT_EQ(seen_, "0 one\n");
}

TEST_F(JobLogs, HaveATail) {
    for (int i = 0; i < 5000; ++i)
        print(static_cast<std::uint32_t>(i % 2), RankStream::output,
              "a" + std::to_string(i) + "\nb" + std::to_string(i) + "\n");
    EXPECT_EQ(all({.ranks = {}, .nodes = {}, .tail = 3}), "0 b4998\n1 a4999\n1 b4999\n");
    EXPECT_EQ(all({.ranks = {{0}}, .nodes = {}, .tail = 1}), "0 b4998\n");
    EXPECT_EQ(all({.ranks = {}, .nodes = {}, .tail = 0}), "");
    const std::string whole = all();
    EXPECT_EQ(all({.ranks = {}, .nodes = {}, .tail = 10000}), whole);
    EXPECT_EQ(all({.ranks = {}, .nodes = {}, .tail = 10001}), whole);
    EXPECT_EQ(all({.ranks = {}, .nodes = {}, .tail = 9999}), whole.substr(whole.find('\n') + 1));
}

TEST_F(JobLogs, HaveATailThatEndsInTheMiddleOfALine) {
    print(0, RankStream::output, "one\ntwo");
    EXPECT_EQ(all({.ranks = {}, .nodes = {}, .tail = 1}), "0 two\n");
}

TEST_F(JobLogs, BeginAtATime) {
    print(0, RankStream::output, "before\n");
    const base::Time between = base::now() + std::chrono::microseconds(1);
    while (base::now() <= between) {
    }
    print(0, RankStream::output, "after\n");
    EXPECT_EQ(all({.ranks = {}, .nodes = {}, .since = between}), "0 after\n");
    EXPECT_EQ(all({.ranks = {}, .nodes = {}, .since = base::Time{}}), "0 before\n0 after\n");
}

// Breaks when a reader cannot be interrupted while it prints much, or when it then loses something.
TEST_F(JobLogs, ComeInPartsIfThereIsMuch) {
    const std::string line = std::string((1U << 20U) - 1, 'x') + "\n";
    for (int i = 0; i < 20; ++i)
        print(0, RankStream::output, line);
    auto one = reader();
    EXPECT_EQ(one.pump(true).value(), JobLogReader::Found::more);
    EXPECT_LT(seen_.size(), 20 * line.size());
    EXPECT_EQ(one.pump(true).value(), JobLogReader::Found::something_new);
    EXPECT_EQ(seen_.size(), 20 * (line.size() + 2));
}

// Breaks when bytes are lost or repeated that could not be noted, because the disk was full.
TEST_F(JobLogs, HaveWhatIsNotNoted) {
    print(0, RankStream::output, "noted\n");
    print(0, RankStream::output, "not noted\n", false);
    print(0, RankStream::output, "noted again\n");
    print(1, RankStream::error, "at the end\n", false);
    const std::string whole = "0 noted\n0 not noted\n0 noted again\n1 at the end\n";
    EXPECT_EQ(all(), whole);
    // A part of a piece is what a full disk has taken.
    std::ofstream(files_.rank_pieces("1"), std::ios::app) << "torn";
    EXPECT_EQ(all(), whole);
    print(0, RankStream::output, "later\n");
    EXPECT_EQ(all(), "0 noted\n0 not noted\n0 noted again\n0 later\n1 at the end\n");
}

// Breaks when what a killed launcher has not copied is lost, or when the file of another attempt or
// a link is read in the place of one that is missing.
TEST_F(JobLogs, HaveWhatIsNotCopied) {
    print(0, RankStream::output, "copied\n");
    std::ofstream(files_.rank_output("1", "0")) << "copied\nnot copied\n";
    std::ofstream(files_.rank_error("1", "1")) << "only there\n";
    EXPECT_EQ(all(), "0 copied\n0 not copied\n1 only there\n");
    fs::remove(logs_ / "ranks/1/stdout-0.txt");
    fs::remove(files_.rank_output("1", "0"));
    std::ofstream(directory_ / "elsewhere") << "copied\n";
    fs::create_symlink(directory_ / "elsewhere", logs_ / "ranks/1/stdout-0.txt");
    EXPECT_EQ(all(), "1 only there\n");
}

TEST_F(JobLogs, AreThereWithoutTheirDirectory) {
    print(0, RankStream::output, "kept\n");
    fs::copy_file(logs_ / "ranks/1/stdout-0.txt", files_.rank_output("1", "0"));
    logs_.clear();
    EXPECT_EQ(all(), "0 kept\n");
}

// Breaks when a damaged file of pieces makes the reader fail or read without end.
TEST_F(JobLogs, SurviveDamagedPieces) {
    print(0, RankStream::output, "fine\n");
    std::ofstream(files_.rank_pieces("1"), std::ios::app) << std::string(48, '\xff');
    EXPECT_EQ(all(), "0 fine\n");
}

TEST(PlacesOfRanks, AreThoseOfSrun) {
    using Nodes = std::vector<std::string>;
    const auto places = [](int ranks, std::string_view distribution) {
        return record::places_of_ranks({"a", "b", "c"}, ranks, distribution).nodes;
    };
    for (const char* block : {"", "*", "block", "block:block", "Block:cyclic,NoPack"})
        EXPECT_EQ(places(5, block), (Nodes{"a", "a", "b", "b", "c"})) << block;
    EXPECT_EQ(places(1, ""), (Nodes{"a"}));
    EXPECT_EQ(places(5, "cyclic:block"), (Nodes{"a", "b", "c", "a", "b"}));
    EXPECT_EQ(places(7, "plane=2"), (Nodes{"a", "a", "b", "b", "c", "c", "a"}));
    for (const char* unknown : {"arbitrary", "block,Pack", "plane", "plane=0", "plane=x"})
        EXPECT_EQ(places(2, unknown), (Nodes{"", ""})) << unknown;
    EXPECT_EQ(record::places_of_ranks({"a"}, 2, "arbitrary").nodes, (Nodes{"a", "a"}));
}

TEST(ChosenRanks, HaveNoNodesIfTheseAreUnknown) {
    const record::RankPlaces places{.nodes = {"", ""}};
    EXPECT_TRUE(check_choice({places}, {.ranks = {{1}}, .nodes = {}}));
    EXPECT_EQ(check_choice({places}, {.ranks = {}, .nodes = {"a"}}).error().hint,
              "choose ranks with --rank");
    EXPECT_EQ(name_of_rank("", 3), "3");
    EXPECT_EQ(name_of_rank("a", 3), "a:3");
}

}  // namespace
}  // namespace batchai::status
