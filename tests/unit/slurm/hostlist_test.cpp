// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/hostlist.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchai::slurm {
namespace {

using ::testing::ElementsAre;

TEST(Hostlist, RangesListsAndPlainNamesKeepTheirOrder) {
    EXPECT_THAT(expand_hostlist("n[1-3,7],x2").value(), ElementsAre("n1", "n2", "n3", "n7", "x2"));
    EXPECT_THAT(expand_hostlist("b,a").value(), ElementsAre("b", "a"));
}

TEST(Hostlist, LeadingZerosSetTheWidth) {
    EXPECT_THAT(expand_hostlist("n[08-10]-ib").value(), ElementsAre("n08-ib", "n09-ib", "n10-ib"));
}

TEST(Hostlist, SeveralBracketsMultiply) {
    EXPECT_THAT(expand_hostlist("r[1-2]n[3-4]").value(),
                ElementsAre("r1n3", "r1n4", "r2n3", "r2n4"));
}

TEST(Hostlist, NothingMeansNoHost) {
    EXPECT_TRUE(expand_hostlist("").value().empty());
    EXPECT_TRUE(expand_hostlist("(null)").value().empty());
}

TEST(Hostlist, WhatIsNoExpressionIsAnError) {
    for (const char* text : {"n[1-3", "n1]", "n[[1]]", "n[]", "n[3-1]", "n[a-b]", "a,,b", ",a",
                             "a,", "a b", "n[1-]", "n[-1]", "n[99999999999999999999]"})
        EXPECT_FALSE(expand_hostlist(text)) << text;
}

TEST(Hostlist, TheNumberOfNamesIsBounded) {
    EXPECT_FALSE(expand_hostlist("n[0-18446744073709551615]"));
    EXPECT_FALSE(expand_hostlist("n[0-65536]"));
    EXPECT_EQ(expand_hostlist("n[0-65535]").value().size(), 65536U);
    EXPECT_FALSE(expand_hostlist("a[0-999]b[0-999]"));
    EXPECT_FALSE(expand_hostlist("a[1-3],b[1-3]", 5));
}

}  // namespace
}  // namespace batchai::slurm
