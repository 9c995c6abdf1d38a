// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/host_silence.hpp"

#include <gtest/gtest.h>

namespace {

using mpi_bridge::after;
using mpi_bridge::Clock;
using mpi_bridge::HostSilence;
using mpi_bridge::Seconds;
using mpi_bridge::TcpAcknowledgement;

class HostSilenceTest : public testing::Test {
  protected:
    // The next look, `later` after the last one.
    double look(double later, const TcpAcknowledgement& seen) {
        now_ = after(now_, Seconds(later));
        return silence_.look(seen, now_).count();
    }
    static TcpAcknowledgement missing(double latest) {
        return {.missing = true, .latest = Seconds(latest)};
    }

  private:
    HostSilence silence_;
    Clock::time_point now_ = Clock::now();
};

TEST_F(HostSilenceTest, LastsAsLongAsNothingIsAcknowledged) {
    // The connection was idle for ten minutes before.
    EXPECT_EQ(look(0, missing(600)), 0);
    EXPECT_DOUBLE_EQ(look(1, missing(601)), 1);
    EXPECT_DOUBLE_EQ(look(1, missing(602)), 2);
}

// Breaks when a process that is stopped, or does not read, is taken for a dead host: its kernel
// goes on to acknowledge.
TEST_F(HostSilenceTest, EndsWithAnAcknowledgement) {
    (void)look(0, missing(0));
    EXPECT_DOUBLE_EQ(look(1, missing(1.5)), 1);
    EXPECT_EQ(look(1, missing(0.2)), 0);
    EXPECT_DOUBLE_EQ(look(1, missing(1.2)), 1);
    EXPECT_EQ(look(1, {.missing = false, .latest = Seconds(2.2)}), 0);
}

// Breaks when ranks that were suspended for an hour, or that have computed for a minute, lose each
// other at their first look.
TEST_F(HostSilenceTest, CountsOnlyWhileSomebodyLooks) {
    (void)look(0, missing(0));
    EXPECT_DOUBLE_EQ(look(3600, missing(3600)), HostSilence::longest_step.count());
}

// Breaks when a rank that computes between two looks takes an acknowledgement of the time in
// between for none.
TEST_F(HostSilenceTest, EndsWithAnAcknowledgementThatNobodyHasSeen) {
    (void)look(0, missing(0));
    EXPECT_EQ(look(10, missing(9.9)), 0);
    EXPECT_EQ(look(10, {.missing = false, .latest = Seconds(9)}), 0);
    EXPECT_EQ(look(10, missing(10)), 0);
}

}  // namespace
