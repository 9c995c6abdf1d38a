// SPDX-License-Identifier: GPL-2.0-or-later
#include "spank/settle.hpp"

#include <string>

#include <gtest/gtest.h>

namespace {

using batchai::spank::settling_time;
using batchai::spank::start_ticks;
using std::chrono::milliseconds;

TEST(Settle, WaitsUntilTheTaskIsHalfAgainAsOldAsItsLaunchTook) {
    EXPECT_EQ(settling_time(milliseconds(120), milliseconds(30)), milliseconds(150));
    EXPECT_EQ(settling_time(milliseconds(120), milliseconds(180)), milliseconds(0));
    EXPECT_EQ(settling_time(milliseconds(120), milliseconds(9000)), milliseconds(0));
}

TEST(Settle, WaitsALittleAfterTheFastestLaunchAndNeverForLong) {
    EXPECT_EQ(settling_time(milliseconds(0), milliseconds(0)), milliseconds(60));
    EXPECT_EQ(settling_time(milliseconds(60000), milliseconds(0)), milliseconds(1000));
    // A clock that went back is no reason to wait longer.
    EXPECT_EQ(settling_time(milliseconds(60000), milliseconds(-5000)), milliseconds(1000));
}

TEST(Settle, ReadsAProcessStartAlsoBehindAStrangeName) {
    std::string stat = "400 (a ) (b 9) S 300";
    for (int field = 5; field < 22; ++field)
        stat += " 7";
    EXPECT_EQ(start_ticks(stat + " 5120 4096 0\n"), 5120);
    EXPECT_EQ(start_ticks(stat), std::nullopt);
    EXPECT_EQ(start_ticks("400"), std::nullopt);
    EXPECT_EQ(start_ticks(""), std::nullopt);
}

}  // namespace
