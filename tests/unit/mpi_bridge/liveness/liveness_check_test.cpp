// SPDX-License-Identifier: Apache-2.0
//
// Seconds go by as the test says.
#include "liveness/liveness_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using mpi_bridge::Clock;
using mpi_bridge::Finding;
using mpi_bridge::LivenessCheck;
using mpi_bridge::Seconds;
using mpi_bridge::Waits;
using testing::ElementsAre;
using testing::IsEmpty;

const Clock::time_point start = Clock::now();

Clock::time_point at(double seconds) {
    return mpi_bridge::after(start, Seconds(seconds));
}

std::vector<Waits::Blocked> waiting_for(int rank, Waits::Lane lane = Waits::Lane::direct,
                                        std::uint32_t serial = 0) {
    return {{.place = 0, .serial = serial, .rank = rank, .lane = lane, .since = {}}};
}

TEST(LivenessCheck, AsksARankThatIsWaitedForMoreAndMoreSeldom) {
    LivenessCheck check(1, {Seconds(0), Seconds(0)});
    std::vector<int> asked;
    for (int second = 0; second <= 100; ++second) {
        const auto orders = check.look(waiting_for(3), at(second));
        EXPECT_FALSE(orders.report);
        if (orders.ask.empty()) continue;
        EXPECT_THAT(orders.ask, ElementsAre(3));
        asked.push_back(second);
        check.answered(3, -1, 'S', at(second));
    }
    EXPECT_THAT(asked, ElementsAre(1, 3, 7, 15, 31, 61, 91));
}

TEST(LivenessCheck, DoesNotAskForShortWaits) {
    LivenessCheck check(1, {Seconds(60), Seconds(0)});
    for (int second = 0; second <= 300; ++second) {
        const auto serial = static_cast<std::uint32_t>(second);
        const auto blocked = second % 2 == 0 ? waiting_for(3, Waits::Lane::direct, serial)
                                             : std::vector<Waits::Blocked>();
        EXPECT_THAT(check.look(blocked, at(second)).ask, IsEmpty()) << second;
    }
}

TEST(LivenessCheck, ReportsASilentRankWithinTheInterval) {
    for (const auto lane : {Waits::Lane::direct, Waits::Lane::engine}) {
        LivenessCheck check(1, {Seconds(60), Seconds(0)});
        double reported = 0;
        bool asked_about = false;
        for (int second = 0; second <= 70 && reported == 0; ++second) {
            const auto orders = check.look(waiting_for(3, lane), at(second));
            for (const int rank : orders.ask_about) {
                asked_about = true;
                check.told_about(rank, 'T', at(second));
            }
            if (!orders.report) continue;
            reported = second;
            const auto findings = check.findings(at(second));
            ASSERT_EQ(findings.size(), 1U);
            EXPECT_EQ(findings[0].rank, 3);
            EXPECT_EQ(findings[0].verdict, Finding::Verdict::silent);
            EXPECT_EQ(findings[0].state, 'T');
        }
        EXPECT_TRUE(asked_about);
        EXPECT_GT(reported, 50);
        EXPECT_LE(reported, 60);
    }
}

// A rank that answered before it froze.
TEST(LivenessCheck, AsksOnceMoreBeforeItReports) {
    LivenessCheck check(1, {Seconds(60), Seconds(0)});
    for (int second = 0; second <= 60; ++second) {
        const auto orders = check.look(waiting_for(3), at(second));
        if (!orders.ask.empty() && second < 40) check.answered(3, -1, 'S', at(second));
        if (!orders.report) continue;
        const auto findings = check.findings(at(second));
        ASSERT_EQ(findings.size(), 1U);
        EXPECT_EQ(findings[0].verdict, Finding::Verdict::silent);
        return;
    }
    FAIL() << "no report";
}

TEST(LivenessCheck, LeavesASlowRankToTheEnginesOwnReport) {
    for (const auto lane : {Waits::Lane::direct, Waits::Lane::engine}) {
        LivenessCheck check(1, {Seconds(60), Seconds(0)});
        for (int second = 0; second <= 60; ++second) {
            const auto orders = check.look(waiting_for(3, lane), at(second));
            if (!orders.ask.empty()) check.answered(3, -1, 'S', at(second));
            if (!orders.report) continue;
            const auto findings = check.findings(at(second));
            ASSERT_EQ(findings.size(), lane == Waits::Lane::direct ? 1U : 0U);
            for (const Finding& found : findings)
                EXPECT_EQ(found.verdict, Finding::Verdict::absent);
        }
    }
}

TEST(LivenessCheck, ReportsARankThatWaitsItselfOnRank0Only) {
    for (const int own : {0, 1}) {
        LivenessCheck check(own, {Seconds(60), Seconds(0)});
        bool reported = false;
        for (int second = 0; second <= 60; ++second) {
            const auto orders = check.look(waiting_for(3), at(second));
            if (!orders.ask.empty()) check.answered(3, 4, 'S', at(second));
            if (!orders.report) continue;
            reported = true;
            EXPECT_EQ(check.findings(at(second)).size(), own == 0 ? 1U : 0U);
        }
        EXPECT_TRUE(reported);
    }
}

TEST(LivenessCheck, NamesARankThatHasEndedIfItIsStillWaitedForALookLater) {
    LivenessCheck check(1, {Seconds(60), Seconds(0)});
    (void)check.look(waiting_for(3), at(0));
    (void)check.look(waiting_for(3), at(1));
    check.gone(3);
    EXPECT_THAT(check.look(waiting_for(3), at(2)).gone, IsEmpty());
    EXPECT_THAT(check.look(waiting_for(3), at(3)).gone, ElementsAre(3));
    EXPECT_THAT(check.look({}, at(4)).gone, IsEmpty());
}

TEST(LivenessCheck, GivesUpWhenTheSettingsSaySo) {
    LivenessCheck check(1, {Seconds(0), Seconds(90)});
    for (int second = 0; second < 90; ++second)
        EXPECT_FALSE(check.look(waiting_for(3), at(second)).give_up) << second;
    const auto give_up = check.look(waiting_for(3), at(90)).give_up;
    ASSERT_TRUE(give_up);
    EXPECT_EQ(give_up->first, 3);
}

TEST(LivenessCheck, LeavesItToOthersForAWhileToGiveUpARankThatWaitsItself) {
    LivenessCheck check(1, {Seconds(0), Seconds(90)});
    int given_up = 0;
    for (int second = 0; second < 120 && given_up == 0; ++second) {
        const auto orders = check.look(waiting_for(3), at(second));
        if (!orders.ask.empty()) check.answered(3, 5, 'S', at(second));
        if (orders.give_up) given_up = second;
    }
    EXPECT_EQ(given_up, 94);
}

// Another rank on its host is asked again before each report.
TEST(LivenessCheck, CountsHowLongAStateLastsAcrossQuestionsToTheNeighbour) {
    LivenessCheck check(1, {Seconds(60), Seconds(0)});
    std::vector<Seconds> lasted;
    for (int second = 0; second <= 130; ++second) {
        const auto orders = check.look(waiting_for(3), at(second));
        for (const int rank : orders.ask_about) {
            check.neighbour_is_silent(rank, 4);
            EXPECT_EQ(check.findings(at(second)).at(0).state, mpi_bridge::process_state::unknown);
            check.told_about(rank, 'D', at(second));
        }
        if (orders.report) lasted.push_back(check.findings(at(second)).at(0).state_for);
    }
    ASSERT_EQ(lasted.size(), 2U);
    EXPECT_GT(lasted[0], Seconds(50));
    EXPECT_GT(lasted[1], Seconds(110));
}

TEST(LivenessCheck, KnowsWhoHasNotAnswered) {
    LivenessCheck check(1, {Seconds(0), Seconds(0)});
    (void)check.look(waiting_for(3), at(0));
    EXPECT_THAT(check.unanswered(), IsEmpty());
    (void)check.look(waiting_for(3), at(1));
    EXPECT_THAT(check.unanswered(), ElementsAre(3));
    check.answered(3, -1, 'S', at(1));
    EXPECT_THAT(check.unanswered(), IsEmpty());
}

TEST(LivenessCheck, LooksOftenEnoughForAShortInterval) {
    EXPECT_EQ(LivenessCheck(0, {Seconds(60), Seconds(0)}).interval(), Seconds(1));
    EXPECT_EQ(LivenessCheck(0, {Seconds(1), Seconds(0)}).interval(), Seconds(0.25));
    EXPECT_EQ(LivenessCheck(0, {Seconds(60), Seconds(2)}).interval(), Seconds(0.5));
}

}  // namespace
