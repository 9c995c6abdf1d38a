// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/timestamp.hpp"

#include <gtest/gtest.h>

namespace batchai::base {

TEST(Timestamp, RoundTripsInTheAzureForm) {
    const auto time = from_iso8601("2018-06-21T17:15:18.288000+00:00");
    ASSERT_TRUE(time);
    EXPECT_EQ(to_iso8601(*time), "2018-06-21T17:15:18.288000+00:00");
    EXPECT_EQ(to_iso8601_seconds(*time), "2018-06-21T17:15:18+00:00");
    EXPECT_EQ(from_iso8601("2018-06-21T17:15:18Z"), from_iso8601("2018-06-21T17:15:18"));
    for (const char* bad :
         {"", "yesterday", "2018-06-21", "2018-06-21T17:15", "2018-06-21 17:15:18",
          "2018-6-21T17:15:18.0", "2018-06-21T17:15:18 and more"})
        EXPECT_FALSE(from_iso8601(bad)) << bad;
}

}  // namespace batchai::base
