// SPDX-License-Identifier: Apache-2.0
#include "core/process_stat.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace {

using mpi_bridge::parse_process_stat;

TEST(ProcessStat, HasAnyName) {
    const auto stat = parse_process_stat(
        "42 (evil) S 7 (x) R 10 1 1 0 -1 0 0 0 0 0 5 6 7 8 20 0 9 0 77 1000 3 0\n");
    ASSERT_TRUE(stat);
    EXPECT_EQ(stat->name, "evil) S 7 (x");
    EXPECT_EQ(stat->state, 'R');
    EXPECT_EQ(stat->parent, 10);
    EXPECT_EQ(stat->ticks, 26U);
    EXPECT_EQ(stat->ticks_of_children, 15U);
    EXPECT_EQ(stat->threads, 9);
    EXPECT_EQ(stat->start, 77U);
    EXPECT_EQ(stat->pages, 3);
}

TEST(ProcessStat, IsRefusedIfItLacksAField) {
    EXPECT_FALSE(parse_process_stat(""));
    EXPECT_FALSE(parse_process_stat("42 (x"));
    EXPECT_FALSE(parse_process_stat("42 (x)"));
    EXPECT_FALSE(parse_process_stat("42 (x) S 1 2"));
    EXPECT_FALSE(parse_process_stat("42 (x) R a 1 1 0 -1 0 0 0 0 0 5 6 7 8 20 0 9 0 77 1000 3 0"));
    EXPECT_FALSE(parse_process_stat("42 (x) R 10 1 1 0 -1 0 0 0 0 0 5 6 7 8 20 0 9 0 77"));
}

TEST(ProcessStat, IsThatOfThisProcess) {
    const auto text = mpi_bridge::read_process_stat("self");
    ASSERT_TRUE(text);
    const auto stat = parse_process_stat(*text);
    ASSERT_TRUE(stat);
    EXPECT_EQ(stat->parent, getppid());
    EXPECT_GT(stat->pages, 0);
    EXPECT_FALSE(mpi_bridge::read_process_stat("0"));
}

}  // namespace
