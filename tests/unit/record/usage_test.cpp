// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/usage.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"

namespace batchai::record {
namespace {

using std::chrono::seconds;

constexpr std::int64_t mebi = 1 << 20;

base::Time start_time() {
    return *base::from_iso8601("2026-06-21T17:15:18");
}

UsageHead some_head() {
    return {.start = start_time(), .interval = 10, .cpus = 8, .memory = 16384 * mebi};
}

// A node with eight ranks that has run for `minutes`.
UsageSample some_sample(int minutes, int gpus = 0) {
    UsageSample sample{.time = start_time() + std::chrono::minutes(minutes),
                       .cpu_seconds = 480.0 * minutes,
                       .memory = 9216 * mebi,
                       .peak = 10000 * mebi,
                       .threads = 24,
                       .read = std::int64_t{5} * minutes * mebi,
                       .written = 2048,
                       .received = std::int64_t{700} * minutes * mebi,
                       .sent = std::int64_t{700} * minutes * mebi};
    for (int rank = 0; rank < 8; ++rank)
        sample.ranks.push_back(
            {.rank = rank, .cpu_seconds = 60.0 * minutes, .memory = 1152 * mebi});
    for (int gpu = 0; gpu < gpus; ++gpu)
        sample.gpus.push_back(
            {.index = gpu, .busy = 97, .memory = 40960 * mebi, .watts = 350, .mean_busy = 90});
    return sample;
}

std::string file_of(const UsageHead& head, int samples) {
    std::string text = usage_line(head);
    for (int i = 0; i < samples; ++i)
        text += usage_line(some_sample(i), head, SampleDetail::record);
    return text;
}

class Scratch {
  public:
    Scratch() {
        std::string name = (std::filesystem::temp_directory_path() / "usage.XXXXXX").string();
        path_ = mkdtemp(name.data());
        std::filesystem::create_directory(files().attempts());
    }
    ~Scratch() { std::filesystem::remove_all(path_); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    [[nodiscard]] JobFiles files() const { return JobFiles(path_); }

  private:
    std::filesystem::path path_;
};

TEST(UsageFile, ReadsWhatItHasWritten) {
    UsageHead head = some_head();
    head.gpus = 2;
    UsageSample sample = some_sample(5, 2);
    sample.ranks.back().waited = 0.004;
    sample.ranks.back().meetings = 1234;
    const NodeUsage read =
        usage_in(usage_line(head) + usage_line(sample, head, SampleDetail::record), 10);
    EXPECT_EQ(read.head, head);
    ASSERT_EQ(read.samples.size(), 1U);
    EXPECT_EQ(read.samples.front(), sample);
}

TEST(UsageFile, ReadsLiveSamplesWithThreadsAndInputOfRanks) {
    const UsageHead head = some_head();
    UsageSample sample = some_sample(5);
    sample.cpu_seconds = 0.25;
    sample.copied = 12 * 1024;
    for (RankUsage& rank : sample.ranks) {
        rank.threads = 3;
        rank.read = 4096;
        rank.written = 0;
        if (rank.rank % 2 != 0) continue;
        rank.waited = 1.25;
        rank.meetings = 7;
    }
    const NodeUsage read =
        usage_in(usage_line(head) + usage_line(sample, head, SampleDetail::live), 10);
    ASSERT_EQ(read.samples.size(), 1U);
    EXPECT_EQ(read.samples.front(), sample);
}

TEST(UsageFile, KeepsWhatIsNotKnown) {
    const UsageHead head = some_head();
    UsageSample sample = some_sample(1);
    sample.gpus.push_back({.index = 3, .memory = mebi});
    const std::string line = usage_line(sample, head, SampleDetail::record);
    EXPECT_NE(line.find(" g=3:-:1:-:-\n"), std::string::npos) << line;
    const NodeUsage read = usage_in(usage_line(head) + line, 10);
    ASSERT_EQ(read.samples.size(), 1U);
    EXPECT_EQ(read.samples.front(), sample);
}

// A sample of eight ranks after the hours in which the interval is the shortest.
TEST(UsageFile, HasFewBytesForASample) {
    EXPECT_LT(usage_line(some_sample(170), some_head(), SampleDetail::record).size(), 200U);
}

TEST(UsageFile, PassesOverLinesThatAreTornOrOfAnotherVersion) {
    const UsageHead head = some_head();
    const std::string good = usage_line(some_sample(1), head, SampleDetail::record);
    const std::string text = usage_line(head) + good.substr(0, 30) + "\n" + good +
                             "@70.0 cpu=1.0 later=x:y\n" + "#comment\n" + good.substr(0, 20);
    const NodeUsage read = usage_in(text, 10);
    ASSERT_EQ(read.samples.size(), 2U);
    EXPECT_EQ(read.samples[0], some_sample(1));
    EXPECT_EQ(read.samples[1].cpu_seconds, 1.0);
    EXPECT_TRUE(usage_in(good, 10).samples.empty()) << "there is no head";
    EXPECT_TRUE(usage_in("", 10).samples.empty());
}

TEST(UsageFile, RefusesNumbersThatDoHarm) {
    const std::string head = usage_line(some_head());
    for (const char* const line :
         {"@nan cpu=1",  "@inf cpu=1",   "@-1 cpu=1",   "@1e300 cpu=1",
          "@1 cpu=nan",  "@1 cpu=-1",    "@1 cpu=inf",  "@1 mem=9223372036854775807",
          "@1 mem=-1",   "@1 io=1",      "@1 io=1,2,3", "@1 thr=99999999999",
          "@1 r=-1:1:1", "@1 r=:1:1",    "@1 r=0:1",    "@1 r=0:1:x",
          "@1 g=0:1:1",  "@1 g=0:x:1:1", "@1 =",        "@",
          "@1 cpu",      "@1  cpu=1",    "@1 r=0:1:1,", "@1 \x1b[31m=1\x1b"}) {
        if (std::string_view(line) == "@1 \x1b[31m=1\x1b") {
            // A key of a later version: its value goes nowhere.
            EXPECT_EQ(usage_in(head + line + "\n", 10).samples.size(), 1U);
        } else if (std::string_view(line) == "@1 =") {
            EXPECT_EQ(usage_in(head + line + "\n", 10).samples.size(), 1U);
        } else {
            EXPECT_TRUE(usage_in(head + line + "\n", 10).samples.empty()) << line;
        }
    }
    std::string many = "@1 r=0:1:1";
    for (int i = 0; i < 5000; ++i)
        many += ",0:1:1";
    EXPECT_TRUE(usage_in(head + many + "\n", 10).samples.empty());
}

TEST(UsageFile, SurvivesAnyBytes) {
    std::mt19937 random(7);
    const std::string good = file_of(some_head(), 5);
    for (int round = 0; round < 2000; ++round) {
        std::string text = good;
        for (int i = 0; i < 8; ++i)
            text[random() % text.size()] = static_cast<char>(random());
        EXPECT_LE(usage_in(text, 4).samples.size(), 4U);
    }
}

TEST(UsageFile, KeepsEverySecondSampleAndTheLast) {
    const NodeUsage read = usage_in(file_of(some_head(), 1001), 100);
    EXPECT_LE(read.samples.size(), 101U);
    EXPECT_GE(read.samples.size(), 50U);
    EXPECT_EQ(read.samples.front().time, start_time());
    EXPECT_EQ(read.samples.back().time, start_time() + std::chrono::minutes(1000));
    for (std::size_t i = 1; i < read.samples.size(); ++i)
        EXPECT_LT(read.samples[i - 1].time, read.samples[i].time);
}

TEST(UsageFile, BeginsAgainWithANewHead) {
    UsageHead later = some_head();
    later.cpus = 2;
    const NodeUsage read = usage_in(file_of(some_head(), 3) + file_of(later, 1), 10);
    EXPECT_EQ(read.head.cpus, 2);
    EXPECT_EQ(read.samples.size(), 1U);
}

TEST(UsageWriter, WritesAFileForEachStepAndNode) {
    const Scratch scratch;
    const JobFiles files = scratch.files();
    for (const char* const step : {"1", "1.preparation", "2", "11", "1-2"}) {
        UsageWriter writer(files, step, 3, "n1");
        writer.begin(some_head());
        writer.add(some_sample(1));
        writer.add(some_sample(2));
    }
    UsageWriter empty(files, "1", 3, "n2");
    empty.begin(some_head());
    const auto found = usage_of_attempt(files, 1);
    ASSERT_EQ(found.size(), 3U);
    EXPECT_EQ(found[0].step, "1");
    EXPECT_EQ(found[1].step, "1-2");
    EXPECT_EQ(found[2].step, "1.preparation");
    EXPECT_EQ(found[0].node, "n1");
    EXPECT_EQ(found[0].number, 3);
    EXPECT_EQ(found[0].samples.size(), 2U);
    EXPECT_EQ(kind_of_usage(found[1].step), "ranks");
    EXPECT_EQ(kind_of_usage(found[2].step), "preparation");
    EXPECT_TRUE(usage_of_attempt(files, 3).empty());
    for (const char* const name :
         {"1.usage-3-n\x1b[31m.txt", "1.<b>.usage-3-n1.txt", "1.usage-", "1.usage-.txt",
          "1.usage-3.txt", "1.usage-3-.txt", "1.usage-x-n1.txt", "1.usage--3-n1.txt",
          ".usage-3-n1.txt", "x.usage-3-n1.txt", "1.usage-3-n1.txt.gz"})
        std::ofstream(files.attempts() / name) << file_of(some_head(), 1);
    EXPECT_EQ(usage_of_attempt(files, 1).size(), 3U);
    struct stat status {};
    ASSERT_EQ(stat(files.usage("1", 3, "n1").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST(UsageWriter, FollowsNoLinkAndReadsNone) {
    const Scratch scratch;
    const JobFiles files = scratch.files();
    const std::string target = (files.directory() / "target").string();
    std::ofstream(target) << "precious\n";
    std::filesystem::create_symlink(target, files.usage("1", 3, "n1"));
    {
        UsageWriter writer(files, "1", 3, "n1");
        writer.begin(some_head());
        writer.add(some_sample(1));
        EXPECT_EQ(*base::read_file(target), "precious\n");
        EXPECT_EQ(usage_of_attempt(files, 1).size(), 1U);
    }
    std::ofstream(target) << file_of(some_head(), 3);
    std::filesystem::remove(files.usage("1", 3, "n1"));
    std::filesystem::create_symlink(target, files.usage("1", 3, "n1"));
    ASSERT_EQ(mkfifo(files.usage("1", 3, "n2").c_str(), 0600), 0);
    std::filesystem::create_directory(files.usage("1", 3, "n3"));
    EXPECT_TRUE(usage_of_attempt(files, 1).empty());
    EXPECT_TRUE(newest_usage(files, 1).empty());
}

TEST(UsageWriter, GivesLiveSamplesAndRemovesThem) {
    const Scratch scratch;
    const JobFiles files = scratch.files();
    UsageWriter writer(files, "1", 3, "n1");
    writer.begin(some_head());
    writer.add(some_sample(1));
    EXPECT_FALSE(writer.is_wanted());
    ASSERT_TRUE(ask_for_live_usage(files));
    EXPECT_TRUE(writer.is_wanted());
    EXPECT_FALSE(writer.is_wanted()) << "nobody has asked again";
    EXPECT_EQ(newest_usage(files, 1).at(0).samples.size(), 1U);
    {
        UsageWriter other(files, "1", 3, "n2");
        other.begin(some_head());
        for (int i = 0; i < 2000; ++i) {
            other.add_live(some_sample(i));
            if (i > 0 && i % 50 == 0) {
                EXPECT_EQ(newest_usage(files, 1).at(1).samples.size(), 2U) << i;
            }
        }
        EXPECT_LE(std::filesystem::file_size(files.live_usage("1", 3, "n2")), 64U << 10U);
        const auto newest = newest_usage(files, 1);
        ASSERT_EQ(newest.size(), 2U);
        EXPECT_EQ(newest[1].node, "n2");
        EXPECT_EQ(newest[1].samples.back(), some_sample(1999));
    }
    EXPECT_FALSE(std::filesystem::exists(files.live_usage("1", 3, "n2")));
}

TEST(UsageWriter, SaysThatTheStepHasEnded) {
    const Scratch scratch;
    const JobFiles files = scratch.files();
    {
        UsageWriter writer(files, "1", 3, "n1");
        writer.begin(some_head());
        writer.add_live(some_sample(0));
        writer.add(some_sample(0));
        EXPECT_FALSE(usage_of_attempt(files, 1).at(0).ended);
        writer.end_live();
        EXPECT_EQ(std::filesystem::file_size(files.live_usage("1", 3, "n1")), 0U);
        writer.add_live(some_sample(1));
        EXPECT_EQ(newest_usage(files, 1).at(0).samples.size(), 1U);
        writer.finish(some_sample(2));
    }
    const auto found = usage_of_attempt(files, 1);
    EXPECT_TRUE(found.at(0).ended);
    EXPECT_EQ(found.at(0).samples.size(), 2U);
    EXPECT_FALSE(std::filesystem::exists(files.live_usage("1", 3, "n1")));
}

TEST(UsageWriter, CanBeForgotten) {
    const Scratch scratch;
    const JobFiles files = scratch.files();
    for (const char* const step : {"1", "1.preparation", "2"}) {
        std::ofstream(files.usage(step, 0, "n1")) << file_of(some_head(), 1);
        std::ofstream(files.live_usage(step, 0, "n1")) << file_of(some_head(), 1);
    }
    forget_live_usage(files, 1);
    EXPECT_TRUE(std::filesystem::exists(files.usage("1", 0, "n1")));
    EXPECT_FALSE(std::filesystem::exists(files.live_usage("1.preparation", 0, "n1")));
    EXPECT_TRUE(std::filesystem::exists(files.live_usage("2", 0, "n1")));
    forget_usage(files, 1);
    EXPECT_TRUE(usage_of_attempt(files, 1).empty());
    EXPECT_EQ(usage_of_attempt(files, 2).size(), 1U);
}

TEST(UsageWriter, HasALimit) {
    const Scratch scratch;
    UsageWriter writer(scratch.files(), "1", 3, "n1");
    writer.begin(some_head());
    UsageSample large = some_sample(1);
    for (int rank = 8; rank < 2000; ++rank)
        large.ranks.push_back({.rank = rank, .cpu_seconds = 1, .memory = mebi});
    for (int i = 0; i < 1000; ++i)
        writer.add(large);
    EXPECT_LE(std::filesystem::file_size(scratch.files().usage("1", 3, "n1")), 9U << 20U);
    EXPECT_FALSE(usage_of_attempt(scratch.files(), 1, 10).empty());
}

TEST(UsageReader, FindsTheNewestSamplesOfALongFile) {
    const Scratch scratch;
    const JobFiles files = scratch.files();
    std::ofstream(files.usage("1", 3, "n1")) << file_of(some_head(), 5000);
    const auto newest = newest_usage(files, 1);
    ASSERT_EQ(newest.size(), 1U);
    ASSERT_EQ(newest[0].samples.size(), 2U);
    EXPECT_EQ(newest[0].head, some_head());
    EXPECT_EQ(newest[0].samples[1].time, start_time() + std::chrono::minutes(4999));
}

}  // namespace
}  // namespace batchai::record
