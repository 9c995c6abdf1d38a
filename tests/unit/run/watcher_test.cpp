// SPDX-License-Identifier: GPL-2.0-or-later
// What an attempt does about ranks that stand still. srun is a script that prints the answers of
// nodes, and watch.bats has the real thing.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attempt_of_fakes.hpp"
#include "record/job_files.hpp"
#include "record/usage.hpp"
#include "visit/stacks/answer.hpp"

namespace batchai::run {

namespace {

using testing::HasSubstr;

visit::JobProcess rank_in(int rank, const std::string& function) {
    visit::JobProcess process{.process = 100 + rank, .parent = 1, .rank = rank, .is_task = true};
    process.step = "1";
    process.program = "python3 train.py";
    process.kernel = {{.id = 100 + rank, .name = "python3", .state = "S"}};
    process.python = {{.name = {}, .main = true, .frames = {{"/home/a/train.py", 8, function}}}};
    return process;
}

class WatcherTest : public PhasesTest {
  protected:
    void SetUp() override {
        PhasesTest::SetUp();
        plan_.steps = {step_of(plan::StepKind::ranks, 3, true)};
        plan_.watch = plan::Watch{.pattern = "step", .within = 1, .ends = true};
        const std::string answers =
            visit::answer_lines({"n1.invalid", {rank_in(0, "meet"), rank_in(1, "meet")}}) +
            visit::answer_lines({"n2.invalid", {rank_in(2, "load")}});
        append("answers", answers);
        append("bin/srun", "#!/bin/sh\ncat '" + path("answers") + "'\n");
        std::filesystem::permissions(path("bin/srun"), std::filesystem::perms::owner_all);
        old_path_ = std::getenv("PATH");
        setenv("PATH", (directory_ + "/bin:" + old_path_).c_str(), 1);
        steps_.answer(0);  // the wire-up check
    }
    void TearDown() override {
        setenv("PATH", old_path_.c_str(), 1);
        PhasesTest::TearDown();
    }
    // Writes samples in which rank 2, on the second node, works twice as long as the others: those
    // of a minute, and then ten times as fast as the clock.
    class SlowRanks {
      public:
        explicit SlowRanks(const record::JobFiles& files)
            : first_(files, "1", 1, "n1.invalid"), second_(files, "1", 1, "n2.invalid") {
            for (record::UsageWriter* writer : {&first_, &second_})
                writer->begin({.start = start_, .interval = 2});
            while (seconds_ < 60)
                add();
        }
        void tick() {
            if (++ticks_ % 10 == 0) add();
        }

      private:
        void add() {
            seconds_ += 2;
            first_.add(sample_of({0, 1}));
            second_.add(sample_of({2}));
        }
        [[nodiscard]] record::UsageSample sample_of(const std::vector<int>& ranks) const {
            record::UsageSample sample{.time = start_ + std::chrono::seconds(seconds_)};
            for (const int rank : ranks)
                sample.ranks.push_back({.rank = rank,
                                        .waited = 1 + seconds_ * (rank == 2 ? 0.2 : 0.6),
                                        .meetings = seconds_});
            return sample;
        }
        const base::Time start_ = base::now() - std::chrono::seconds(60);
        record::UsageWriter first_;
        record::UsageWriter second_;
        int seconds_ = 0;
        int ticks_ = 0;
    };
    // The ranks print a line of progress, and then none until they are ended or time is up. With
    // `ends_when_told` they end some looks of the watcher after its alarm. The signal comes when
    // they have printed their line.
    void ranks_hang(std::chrono::seconds longest, std::optional<int> signal = {},
                    bool ends_when_told = false) {
        steps_.answers.emplace_back([=, this](const StepRequest& request) {
            append("job/attempts/1.stdout-0.txt", "step 1\n");
            if (signal) request.pass_on(*signal);
            std::optional<SlowRanks> slow;
            if (plan_.watch->slow_percent > 0) slow.emplace(record::JobFiles(path("job")));
            const auto end = std::chrono::steady_clock::now() + longest;
            int looks_after_alarm = 0;
            while (std::chrono::steady_clock::now() < end && !was_ended_ &&
                   looks_after_alarm < 50) {
                if (ends_when_told && has_alarm()) ++looks_after_alarm;
                request.tick();
                if (slow) slow->tick();
                was_ended_ = request.enough();
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
            }
            return StepResult{.exit_code = was_ended_ ? 143 : 0, .messages = {}, .stopped_by = {}};
        });
    }

    [[nodiscard]] bool has_alarm() const {
        const auto attempt = record::latest_attempt(record::JobFiles(path("job")));
        return attempt && *attempt && !(*attempt)->alarms.empty();
    }

    std::string old_path_;
    bool was_ended_ = false;
};

}  // namespace

TEST_F(WatcherTest, EndsRanksWithoutProgressAndNamesTheOneThatHoldsThemUp) {
    ranks_hang(std::chrono::seconds(60));
    EXPECT_EQ(attempt(), 1);
    EXPECT_EQ(record_.ended_by, record::EndedBy::hang);
    ASSERT_TRUE(record_.failure);
    EXPECT_EQ(record_.failure->code, "JobHung");
    EXPECT_EQ(record_.failure->node, "n2.invalid");
    EXPECT_EQ(record_.failure->rank, 2);
    EXPECT_THAT(record_.failure->first_error_line, HasSubstr(": at train.py:8 in load()"));
    ASSERT_EQ(record_.alarms.size(), 1U);
    EXPECT_EQ(record_.alarms[0].stacks, "stacks-1-1.txt");
    EXPECT_THAT(text_of("logs/stacks-1-1.txt"),
                HasSubstr("ranks 0-1 on n1.invalid: at train.py:8 in meet()"));
}

TEST_F(WatcherTest, OnlyReportsUnlessItIsToEndThem) {
    plan_.watch->ends = false;
    ranks_hang(std::chrono::seconds(60), {}, true);
    EXPECT_EQ(attempt(), 0);
    EXPECT_FALSE(was_ended_);
    ASSERT_EQ(record_.alarms.size(), 1U);
    EXPECT_EQ(record_.alarms[0].node, "n2.invalid");
}

// Breaks when ranks are ended that write their last checkpoint.
TEST_F(WatcherTest, DoesNotEndRanksThatHaveBeenWarned) {
    plan_.checkpoint = plan::Checkpoint{.signal = SIGUSR1, .seconds_before = 60};
    ranks_hang(std::chrono::seconds(60), SIGTERM, true);
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(steps_.signalled, testing::ElementsAre(SIGUSR1));
    EXPECT_FALSE(was_ended_);
    EXPECT_EQ(record_.alarms.size(), 1U);
}

// Breaks when silent ranks are ended although nobody notes what they do.
TEST_F(WatcherTest, DoesNotCallRanksSilentThatNobodyLooksAt) {
    plan_.watch = plan::Watch{.silence = 1, .ends = true};
    ranks_hang(std::chrono::seconds(4));
    EXPECT_EQ(attempt(), 0);
    EXPECT_FALSE(was_ended_);
    EXPECT_TRUE(record_.alarms.empty());
}

// Breaks when a slow rank is said to stand still, or is not named with its node.
TEST_F(WatcherTest, EndsRanksOfWhichOneIsSlow) {
    plan_.watch = plan::Watch{.slow_percent = 150, .slow_over = 30, .ends = true};
    ranks_hang(std::chrono::seconds(60));
    EXPECT_EQ(attempt(), 1);
    EXPECT_EQ(record_.ended_by, record::EndedBy::slow);
    ASSERT_TRUE(record_.failure);
    EXPECT_EQ(record_.failure->code, "JobSlow");
    EXPECT_EQ(record_.failure->node, "n2.invalid");
    EXPECT_EQ(record_.failure->rank, 2);
    EXPECT_THAT(record_.failure->first_error_line,
                HasSubstr("rank 2 on n2.invalid has needed 2.0 times as long"));
    ASSERT_EQ(record_.alarms.size(), 1U);
    EXPECT_EQ(record_.alarms[0].where, "at train.py:8 in load()");
}

// Breaks when ranks that get on are ended although they could only start again on the same node.
TEST_F(WatcherTest, LeavesSlowRanksAloneIfNoNodeCanTakeTheirPlace) {
    plan_.watch = plan::Watch{.slow_percent = 150, .slow_over = 30, .ends = true};
    plan_.allocation.spare_nodes = 1;  // which has taken the place of another
    std::filesystem::remove(path("answers"));
    append("answers", "");
    ranks_hang(std::chrono::seconds(60), {}, true);
    EXPECT_EQ(attempt(), 0);
    EXPECT_FALSE(was_ended_);
    ASSERT_EQ(record_.alarms.size(), 1U);
    EXPECT_EQ(record_.alarms[0].node, "n2.invalid") << "although no node has answered";
}

// Breaks when a node that does not answer is blamed, or keeps the others from being told.
TEST_F(WatcherTest, BlamesNobodyIfANodeDoesNotAnswer) {
    std::filesystem::remove(path("answers"));
    append("answers",
           visit::answer_lines({"n1.invalid", {rank_in(0, "meet"), rank_in(1, "load")}}));
    ranks_hang(std::chrono::seconds(60));
    EXPECT_EQ(attempt(), 1);
    EXPECT_EQ(record_.failure->node, "");
    EXPECT_THAT(record_.failure->first_error_line, HasSubstr("n2.invalid: has not answered"));
    EXPECT_THAT(record_.failure->first_error_line, HasSubstr("rank 1 on n1.invalid: at train.py"));
}

}  // namespace batchai::run
