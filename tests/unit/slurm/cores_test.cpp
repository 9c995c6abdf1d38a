// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/cores.hpp"

#include <gtest/gtest.h>

namespace batchai::slurm {
namespace {

// A node that is in two partitions has two lines.
constexpr std::string_view lines =
    "h1|k80,fast|2/2/0/4\n"
    "h1|k80,fast|2/2/0/4\n"
    "h2|k80|4/0/0/4\n"
    "h3|(null)|0/0/8/8\n";

TEST(Cores, AreCountedOnceForEachNode) {
    EXPECT_EQ(parse_cores(lines, "").value(), (Cores{.allocated = 6, .total = 16}));
    EXPECT_EQ(parse_cores("", "").value(), Cores{});
}

TEST(Cores, AreThoseOfNodesWithAllFeatures) {
    EXPECT_EQ(parse_cores(lines, "k80").value(), (Cores{.allocated = 6, .total = 8}));
    EXPECT_EQ(parse_cores(lines, "k80&fast").value(), (Cores{.allocated = 2, .total = 4}));
    EXPECT_EQ(parse_cores(lines, "k8").value(), Cores{});
}

TEST(Cores, OfAnotherFormAreAnError) {
    for (const char* text : {"h1|k80", "h1|k80|1/2/3", "h1|k80|a/b/c/d", "h1|k80|1/2/3/4|5"})
        EXPECT_FALSE(parse_cores(text, "")) << text;
}

}  // namespace
}  // namespace batchai::slurm
