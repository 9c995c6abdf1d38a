// SPDX-License-Identifier: GPL-2.0-or-later
// When a job's "watch" says that the ranks stand still. watch.bats has the jobs.
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/line_pattern.hpp"
#include "run/watch/line_stream.hpp"
#include "run/watch/stall.hpp"
#include "run/watch/work.hpp"

namespace batchai::run {

namespace {

using std::chrono::seconds;
using testing::HasSubstr;

class StallClockTest : public testing::Test {
  protected:
    [[nodiscard]] StallClock::Clock::time_point at(int second) const {
        return begin_ + seconds(second);
    }
    // Returns the text of what has changed; empty: nothing.
    static std::string said(StallClock& clock, StallClock::Clock::time_point now) {
        const auto change = clock.poll(now);
        return change ? text_of(*change) : std::string();
    }

    StallClock::Clock::time_point begin_ = StallClock::Clock::now();
};

TEST_F(StallClockTest, TellsSilenceOnceAndThatItIsOver) {
    const plan::Watch watch{.silence = 60};
    StallClock clock(watch, begin_);
    EXPECT_EQ(said(clock, at(59)), "");
    clock.printed(at(30));
    EXPECT_EQ(said(clock, at(89)), "");
    EXPECT_EQ(said(clock, at(90)),
              "the ranks have printed nothing and done nothing for 60 s (\"watch.silence\")");
    EXPECT_EQ(said(clock, at(200)), "");
    EXPECT_TRUE(clock.stands_still(Stalled::silence, at(200)));
    clock.printed(at(201));
    EXPECT_EQ(said(clock, at(202)), "the ranks print or do something again (\"watch.silence\")");
    EXPECT_EQ(said(clock, at(203)), "");
    EXPECT_NE(said(clock, at(261)), "");
}

TEST_F(StallClockTest, DoesNotCallAJobSilentThatWorks) {
    const plan::Watch watch{.silence = 60};
    StallClock clock(watch, begin_);
    EXPECT_FALSE(clock.needs_work(at(14)));
    EXPECT_TRUE(clock.needs_work(at(15)));
    clock.looks(at(15));
    for (int second = 20; second < 600; second += 10) {
        clock.worked(at(second));
        EXPECT_EQ(said(clock, at(second)), "");
    }
    EXPECT_EQ(said(clock, at(649)), "");
    EXPECT_NE(said(clock, at(650)), "");
}

// Breaks when work that nobody has looked at is taken for none.
TEST_F(StallClockTest, CountsFromTheFirstLook) {
    const plan::Watch watch{.silence = 60};
    StallClock clock(watch, begin_);
    clock.looks(at(15));
    EXPECT_EQ(said(clock, at(74)), "");
    EXPECT_THAT(said(clock, at(75)), HasSubstr("for 75 s"));
}

TEST_F(StallClockTest, WaitsForTheFirstLineOfProgressAsLongAsItIsTold) {
    const plan::Watch forever{.pattern = "step", .within = 10};
    StallClock patient(forever, begin_);
    EXPECT_EQ(said(patient, at(100'000)), "");
    patient.progressed(at(100'000));
    EXPECT_EQ(said(patient, at(100'009)), "");
    EXPECT_EQ(said(patient, at(100'010)),
              "the ranks have printed no line of progress for 10 s (\"watch.progress\")");
    const plan::Watch bounded{.pattern = "step", .within = 10, .first = 30};
    StallClock strict(bounded, begin_);
    strict.printed(at(29));
    EXPECT_EQ(said(strict, at(29)), "");
    EXPECT_NE(said(strict, at(30)), "");
    EXPECT_FALSE(strict.needs_work(at(1000)));
}

TEST_F(StallClockTest, TellsEachKindForItself) {
    const plan::Watch watch{.silence = 100, .pattern = "step", .within = 10, .idle_gpu = 20};
    StallClock clock(watch, begin_);
    EXPECT_TRUE(clock.needs_work(at(5)));
    clock.progressed(at(1));
    clock.printed(at(12));
    EXPECT_THAT(said(clock, at(20)), HasSubstr("watch.progress"));
    EXPECT_EQ(said(clock, at(20)), "the job's GPUs have done nothing for 20 s (\"watch.idleGpu\")");
    clock.gpus_worked(at(21));
    EXPECT_EQ(said(clock, at(22)), "the job's GPUs are busy again (\"watch.idleGpu\")");
    EXPECT_EQ(said(clock, at(23)), "");
}

// Breaks when a job that Slurm has suspended is ended for the time in which it could do nothing.
TEST_F(StallClockTest, LeavesOutTheTimeInWhichNobodyLooked) {
    const plan::Watch watch{
        .silence = 60, .pattern = "step", .within = 20, .first = 30, .idle_gpu = 40};
    StallClock clock(watch, begin_);
    clock.leave_out(seconds(100));
    EXPECT_EQ(said(clock, at(129)), "");
    clock.progressed(at(129));
    clock.leave_out(seconds(1000));
    EXPECT_EQ(said(clock, at(1139)), "");
    EXPECT_THAT(said(clock, at(1140)), HasSubstr("done nothing for 40 s"));
    EXPECT_EQ(said(clock, at(1148)), "");
    EXPECT_THAT(said(clock, at(1149)), HasSubstr("line of progress for 20 s"));
    EXPECT_EQ(said(clock, at(1159)), "");
    EXPECT_THAT(said(clock, at(1160)), HasSubstr("printed nothing and done nothing for 60 s"));
}

// Whether a line of the piece matches.
bool gets_on(LineStream& lines, std::size_t stream, std::string_view bytes) {
    return lines.feed(stream, bytes).progressed;
}

LineStream stream_of(const std::string& pattern) {
    return LineStream(job::LinePattern::compile(pattern).value());
}

TEST(LineStream, FindsLinesThatComeInPieces) {
    LineStream lines = stream_of("^step [0-9]+$");
    EXPECT_FALSE(gets_on(lines, 0, "ste"));
    EXPECT_FALSE(gets_on(lines, 1, "step x\n"));
    EXPECT_FALSE(gets_on(lines, 0, "p 1"));
    EXPECT_TRUE(gets_on(lines, 0, "7\nstep"));
    EXPECT_FALSE(gets_on(lines, 0, " 18 of\n"));
    EXPECT_TRUE(gets_on(lines, 0, "a\nstep 3\nb\n"));
    EXPECT_TRUE(lines.feed(1, "x").printed);
}

TEST(LineStream, TakesTheStatesOfAProgressBarForLines) {
    LineStream lines = stream_of("[0-9]+%");
    EXPECT_FALSE(gets_on(lines, 0, "\r 10%"));
    EXPECT_TRUE(gets_on(lines, 0, "\r 11%"));
}

TEST(LineStream, KeepsLittleOfALineWithoutEnd) {
    LineStream lines = stream_of("needle");
    const std::string block(1 << 20U, 'x');
    for (int i = 0; i < 100; ++i)
        EXPECT_FALSE(gets_on(lines, 0, block));
    EXPECT_FALSE(gets_on(lines, 0, "needle\n"));
    EXPECT_TRUE(gets_on(lines, 0, "needle\n"));
}

// Breaks when a job of mpi_bridge never stands still, because it says again and again that it does.
TEST(LineStream, TakesNoReportOfAStallForASignOfLife) {
    LineStream lines{std::nullopt};
    const std::string report = "mpi_bridge: rank 0: 1 operation has waited for 60 s: \"grad\"\n";
    for (std::size_t cut = 0; cut <= report.size(); ++cut) {
        EXPECT_FALSE(lines.feed(0, report.substr(0, cut)).printed) << cut;
        EXPECT_FALSE(lines.feed(0, report.substr(cut)).printed) << cut;
    }
    EXPECT_TRUE(lines.feed(0, report + "loss\n" + report).printed);
    EXPECT_FALSE(lines.feed(0, "mpi").printed);
    EXPECT_TRUE(lines.feed(0, " is fine").printed);
}

record::NodeUsage usage_of(const std::string& step, double second, double cpu,
                           std::int64_t copied = 0, std::optional<int> gpu = {}) {
    record::UsageSample sample;
    sample.time = base::Time() + std::chrono::duration_cast<base::Time::duration>(
                                     std::chrono::duration<double>(second));
    sample.copied = copied;
    sample.ranks = {{.rank = 0, .cpu_seconds = 100}, {.rank = 1, .cpu_seconds = cpu}};
    if (gpu) sample.gpus = {{.index = 0, .busy = gpu}};
    return {.step = step, .number = 1, .node = "n1", .head = {}, .samples = {sample}};
}

class WorkMeterTest : public testing::Test {
  protected:
    WorkSeen look(WorkMeter& meter, const std::vector<record::NodeUsage>& usage) const {
        return meter.look(usage, now_);
    }
    WorkMeter::Clock::time_point now_ = WorkMeter::Clock::now();
};

TEST_F(WorkMeterTest, SeesWhatARankDoes) {
    WorkMeter meter(1);
    EXPECT_FALSE(look(meter, {}).known);
    const WorkSeen first = look(meter, {usage_of("1", 10, 5)});
    EXPECT_TRUE(first.known);
    EXPECT_TRUE(first.everywhere);
    EXPECT_FALSE(first.ranks);
    EXPECT_FALSE(first.gpus_known);
    // A program that waits wakes up now and then.
    EXPECT_FALSE(look(meter, {usage_of("1", 20, 5.4)}).ranks);
    EXPECT_TRUE(look(meter, {usage_of("1", 30, 5.9)}).ranks);
    // The sample before was not a live one, and later one of the record comes in between.
    EXPECT_FALSE(look(meter, {usage_of("1", 40, 5.9, 6'400'000)}).ranks);
    EXPECT_FALSE(look(meter, {usage_of("1", 50, 5.9, 7'000'000)}).ranks);
    EXPECT_FALSE(look(meter, {usage_of("1", 51, 5.9)}).ranks);
    EXPECT_FALSE(look(meter, {usage_of("1", 51.1, 5.93, 7'050'000)}).ranks);
    EXPECT_TRUE(look(meter, {usage_of("1", 60, 5.93, 7'750'000)}).ranks);
}

TEST_F(WorkMeterTest, LooksAtTheRanksAndWhatRunsBesideThem) {
    WorkMeter meter(1);
    EXPECT_FALSE(look(meter, {usage_of("2.preparation", 10, 0)}).known);
    EXPECT_TRUE(look(meter, {usage_of("2.ps", 10, 0)}).known);
    EXPECT_TRUE(look(meter, {usage_of("2.ps", 20, 10)}).ranks);
}

// Breaks when work between two looks is missed: a look may have many samples.
TEST_F(WorkMeterTest, TakesAllSamplesOfALook) {
    WorkMeter meter(1);
    static_cast<void>(look(meter, {usage_of("1", 10, 0, 0, 0)}));
    record::NodeUsage usage = usage_of("1", 12, 0, 0, 90);
    usage.samples.push_back(usage_of("1", 14, 0, 0, 0).samples.front());
    EXPECT_TRUE(look(meter, {usage}).gpus);
    EXPECT_FALSE(look(meter, {usage}).gpus);
    EXPECT_TRUE(look(meter, {usage_of("1", 20, 0, 0, 5)}).gpus);
    EXPECT_FALSE(look(meter, {usage_of("1", 30, 0, 0, 4)}).gpus);
    meter.forget();
    EXPECT_FALSE(look(meter, {usage_of("1", 40, 1000)}).ranks);
}

// Breaks when a GPU whose driver does not tell counts as idle, as those of MIG would.
TEST_F(WorkMeterTest, DoesNotKnowAGpuThatTellsNothing) {
    WorkMeter meter(1);
    record::NodeUsage usage = usage_of("1", 10, 0, 0, 50);
    usage.samples.front().gpus.front().busy.reset();
    EXPECT_FALSE(look(meter, {usage}).gpus_known);
    record::NodeUsage other = usage_of("1", 20, 0, 0, 0);
    other.node = "n2";
    EXPECT_FALSE(look(meter, {usage, other}).gpus_known);
    EXPECT_TRUE(look(meter, {usage_of("1", 20, 0, 0, 0), other}).gpus_known);
}

// Breaks when a job is ended because the GPUs of some nodes are idle, and nobody can tell what
// those of the others do.
TEST_F(WorkMeterTest, DoesNotKnowTheGpusOfANodeThatTellsNothingOfThem) {
    WorkMeter meter(2);
    const record::NodeUsage idle = usage_of("1", 10, 0, 0, 0);
    record::NodeUsage other = usage_of("1", 10, 0);
    other.node = "n2";
    // A node of the job that has no GPUs does not matter.
    EXPECT_TRUE(look(meter, {idle, other}).gpus_known);
    other.head.gpus = 1;
    EXPECT_FALSE(look(meter, {idle, other}).gpus_known);
    other.samples.front().gpus = {{.index = 0, .busy = 0}};
    EXPECT_TRUE(look(meter, {idle, other}).gpus_known);
    other.head.gpus = 2;
    EXPECT_FALSE(look(meter, {idle, other}).gpus_known);
}

// Breaks when a node that no longer notes anything seems to do nothing.
TEST_F(WorkMeterTest, DoesNotKnowANodeThatHasNoNewSample) {
    WorkMeter meter(2);
    record::NodeUsage other = usage_of("1", 10, 0);
    other.node = "n2";
    EXPECT_TRUE(look(meter, {usage_of("1", 10, 0), other}).everywhere);
    now_ += std::chrono::seconds(59);
    EXPECT_TRUE(look(meter, {usage_of("1", 20, 0), other}).everywhere);
    now_ += std::chrono::seconds(1);
    const WorkSeen without = look(meter, {usage_of("1", 30, 0), other});
    EXPECT_TRUE(without.known);
    EXPECT_FALSE(without.everywhere);
    // Its ranks have ended, and the others may wait for them.
    other.ended = true;
    EXPECT_TRUE(look(meter, {usage_of("1", 31, 0), other}).everywhere);
    other.ended = false;
    now_ += std::chrono::seconds(60);
    EXPECT_FALSE(look(meter, {usage_of("1", 31, 0), other}).known);
    WorkMeter two(2);
    EXPECT_FALSE(look(two, {other}).everywhere);
}

}  // namespace

}  // namespace batchai::run
