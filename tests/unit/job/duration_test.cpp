// SPDX-License-Identifier: GPL-2.0-or-later
#include <chrono>
#include <optional>

#include <gtest/gtest.h>

#include "job/schema/checks.hpp"

namespace batchai::job {
namespace {

using namespace std::chrono_literals;

TEST(Duration, IsReadInAllFormsThatTheServiceUsed) {
    EXPECT_EQ(parse_duration("P7D"), 168h);
    EXPECT_EQ(parse_duration("PT1H"), 1h);
    EXPECT_EQ(parse_duration("P1DT2H3M4S"), 26h + 3min + 4s);
    EXPECT_EQ(parse_duration("P2W"), 336h);
    EXPECT_EQ(parse_duration("PT90M"), 90min);
    EXPECT_EQ(parse_duration("7.00:00:00"), 168h);
    EXPECT_EQ(parse_duration("7 days, 0:00:00"), 168h);
    EXPECT_EQ(parse_duration("1 day, 1:02:03"), 25h + 2min + 3s);
    EXPECT_EQ(parse_duration("1:00:00"), 1h);
    EXPECT_EQ(parse_duration("00:10:00"), 10min);
    EXPECT_EQ(parse_duration("100:00:00"), 100h);
    EXPECT_EQ(parse_duration(" PT1H "), 1h);
}

TEST(Duration, IsRefusedWhenItHasNoFixedLengthOrIsNone) {
    for (const char* text : {"",
                             "P",
                             "PT",
                             "P1DT",
                             "7",
                             "P1Y",
                             "P1M",
                             "PT1.5H",
                             "-P1D",
                             "P-1D",
                             "PT1H1H",
                             "PT1S1H",
                             "1:00",
                             "1:60:00",
                             "1:00:60",
                             "1:0:0",
                             "1.24:00:00",
                             "1 days 1:00:00",
                             "7.00:00:00x",
                             "PT99999999999999999999H",
                             "99999999999:00:00",
                             "forever"}) {
        EXPECT_EQ(parse_duration(text), std::nullopt) << text;
    }
}

TEST(Duration, IsPrintedAsPythonPrintsIt) {
    EXPECT_EQ(format_duration(168h), "7 days, 0:00:00");
    EXPECT_EQ(format_duration(24h), "1 day, 0:00:00");
    EXPECT_EQ(format_duration(1h + 2min + 3s), "1:02:03");
    EXPECT_EQ(format_duration(0s), "0:00:00");
}

}  // namespace
}  // namespace batchai::job
