// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/warning.hpp"

#include <csignal>

#include <gtest/gtest.h>

namespace batchai::run {

namespace {

using std::chrono::seconds;
using Answer = Warning::Answer;

constexpr int notice = plan::checkpoint_notice;
const std::optional<plan::Checkpoint> five_minutes =
    plan::Checkpoint{.signal = SIGUSR1, .seconds_before = 300};
const Warning::Clock::time_point start{};

}  // namespace

// Breaks when ranks get a signal that would end them, because they cannot have a handler yet.
TEST(Warning, IsKeptWhileTheRanksStart) {
    Warning warning(five_minutes, start);
    EXPECT_FALSE(warning.is_due(start + seconds(100)));
    EXPECT_EQ(warning.answer(notice, start + seconds(1)), Answer::nothing);
    EXPECT_FALSE(warning.is_due(start + seconds(29)));
    EXPECT_FALSE(warning.has_been_given());
    EXPECT_TRUE(warning.is_due(start + seconds(30)));
    warning.given();
    EXPECT_TRUE(warning.has_been_given());
    EXPECT_FALSE(warning.is_due(start + seconds(31)));
    EXPECT_EQ(warning.answer(notice, start + seconds(32)), Answer::nothing);
}

TEST(Warning, TakesNoMoreThanHalfOfTheTimeThatIsLeft) {
    const std::optional<plan::Checkpoint> short_one =
        plan::Checkpoint{.signal = SIGUSR1, .seconds_before = 10};
    Warning warning(short_one, start);
    EXPECT_EQ(warning.answer(notice, start), Answer::nothing);
    EXPECT_FALSE(warning.is_due(start + seconds(4)));
    EXPECT_TRUE(warning.is_due(start + seconds(5)));
}

TEST(Warning, IsGivenAtOnceToRanksThatRun) {
    Warning warning(five_minutes, start);
    EXPECT_EQ(warning.answer(notice, start + seconds(1000)), Answer::warn);
}

TEST(Warning, IsDueAgainIfTheRanksCouldNotBeReached) {
    Warning warning(five_minutes, start);
    EXPECT_EQ(warning.answer(notice, start + seconds(1000)), Answer::warn);
    warning.postpone(start + seconds(1001));
    EXPECT_FALSE(warning.is_due(start + seconds(1002)));
    EXPECT_TRUE(warning.is_due(start + seconds(1010)));
}

// Breaks when srun gets TERM and has the ranks killed while they save.
TEST(Warning, LeavesTheRanksTheTimeThatTheyWerePromised) {
    Warning warning(five_minutes, start);
    EXPECT_EQ(warning.answer(notice, start + seconds(1000)), Answer::warn);
    warning.given();
    EXPECT_EQ(warning.answer(SIGTERM, start + seconds(1001)), Answer::nothing);
    EXPECT_EQ(warning.answer(SIGTERM, start + seconds(1299)), Answer::nothing);
    // Somebody wants to end a step that does not end.
    EXPECT_EQ(warning.answer(SIGTERM, start + seconds(1301)), Answer::pass_on);
}

TEST(Warning, IsTheFirstTerm) {
    Warning warning(five_minutes, start);
    EXPECT_EQ(warning.answer(SIGTERM, start + seconds(1)), Answer::warn);
    warning.given();
    EXPECT_EQ(warning.answer(notice, start + seconds(2)), Answer::nothing);
    EXPECT_EQ(warning.answer(SIGTERM, start + seconds(30)), Answer::nothing);
    EXPECT_EQ(warning.answer(SIGTERM, start + seconds(32)), Answer::pass_on);
}

// Breaks when a kept notice delays what Slurm does not wait for.
TEST(Warning, IsGivenAtOnceWhenTheJobEnds) {
    Warning warning(five_minutes, start);
    EXPECT_EQ(warning.answer(notice, start), Answer::nothing);
    EXPECT_EQ(warning.answer(SIGTERM, start + seconds(1)), Answer::warn);
    warning.given();
    EXPECT_EQ(warning.answer(SIGTERM, start + seconds(200)), Answer::nothing);
}

TEST(Warning, LetsOtherSignalsPass) {
    Warning warning(five_minutes, start);
    for (const int signal : {SIGINT, SIGHUP, SIGUSR1, SIGUSR2})
        EXPECT_EQ(warning.answer(signal, start), Answer::pass_on);
    const std::optional<plan::Checkpoint> none;
    Warning without(none, start);
    EXPECT_EQ(without.answer(notice, start), Answer::nothing);
    EXPECT_EQ(without.answer(SIGTERM, start), Answer::pass_on);
}

// Breaks when the notice hides a crash, or what the others of the ranks do when one has left.
TEST(Warning, TellsRanksThatHaveStoppedFromThoseThatHaveCrashed) {
    const plan::Checkpoint& checkpoint = *five_minutes;
    const TaskEnd stopped{"n1", 0, {}, run_me_again};
    const TaskEnd crashed{"n1", 1, SIGSEGV, {}};
    TaskEnd killed{"n2", 2, SIGUSR1, {}};
    EXPECT_TRUE(ended_as_told({stopped}, run_me_again, checkpoint));
    EXPECT_TRUE(ended_as_told({}, run_me_again, checkpoint));
    EXPECT_TRUE(ended_as_told({crashed, stopped}, 128 + SIGSEGV, checkpoint));
    EXPECT_TRUE(ended_as_told({killed}, 1, checkpoint));
    EXPECT_FALSE(ended_as_told({crashed}, 128 + SIGSEGV, checkpoint));
    EXPECT_FALSE(ended_as_told({}, 1, checkpoint));
    EXPECT_FALSE(ended_as_told({}, 128 + SIGKILL, checkpoint));
    killed.victim = true;
    EXPECT_FALSE(ended_as_told({crashed, killed}, 128 + SIGSEGV, checkpoint));
}

}  // namespace batchai::run
