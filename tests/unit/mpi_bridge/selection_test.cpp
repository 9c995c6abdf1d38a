// SPDX-License-Identifier: Apache-2.0
#include "select/selection.hpp"

#include <gtest/gtest.h>

#include "core/settings.hpp"

namespace {

using mpi_bridge::AllreduceAlgorithm;
using mpi_bridge::AllreduceTable;

TEST(AllreduceTable, ChoosesByLength) {
    const AllreduceTable table;
    EXPECT_EQ(table.choose(0), AllreduceAlgorithm::recursive_doubling);
    EXPECT_EQ(table.choose(16384), AllreduceAlgorithm::recursive_doubling);
    EXPECT_EQ(table.choose(16385), AllreduceAlgorithm::ring);
}

TEST(AllreduceTable, ReadsWhatItWrites) {
    const auto table = AllreduceTable::parse("ring:1K,recursive_doubling:2K,ring");
    ASSERT_TRUE(table) << table.error().text;
    EXPECT_EQ(table->text(), "ring:1024,recursive_doubling:2048,ring");
    EXPECT_EQ(table->choose(1025), AllreduceAlgorithm::recursive_doubling);
}

TEST(AllreduceTable, RefusesWhatItCannotKeep) {
    for (const char* text : {"", "tree", "ring:1K", "ring,ring", "ring:2K,ring:1K,ring",
                             "ring:x,ring", "ring:,ring", "ring,"}) {
        const auto table = AllreduceTable::parse(text);
        ASSERT_FALSE(table) << text;
        EXPECT_EQ(table.error().status, MPIB_ERROR_INVALID_ARGUMENT);
    }
}

TEST(Settings, ReadNumbersWithTheirUnits) {
    EXPECT_EQ(mpi_bridge::parse_bytes("3M"), std::size_t{3} << 20);
    EXPECT_EQ(mpi_bridge::parse_bytes("3X"), std::nullopt);
    EXPECT_EQ(mpi_bridge::parse_bytes("99999999999G"), std::nullopt);
    EXPECT_EQ(mpi_bridge::parse_seconds("0.5")->count(), 0.5);
    for (const char* text : {"", "0", "-1", "nan", "inf", "5s"}) {
        EXPECT_FALSE(mpi_bridge::parse_seconds(text)) << text;
    }
}

}  // namespace
