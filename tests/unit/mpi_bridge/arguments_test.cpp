// SPDX-License-Identifier: Apache-2.0
#include "api/arguments.hpp"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace {

// Breaks when lengths wrap around, so that the parts lie far outside of the caller's memory.
TEST(Arguments, LengthsThatWrapAroundAreTooLong) {
    constexpr std::size_t half = SIZE_MAX / 2 + 1;
    EXPECT_TRUE(mpi_bridge::too_long(std::vector<std::size_t>{half, half, 1}));
    EXPECT_TRUE(mpi_bridge::too_long(std::vector<std::size_t>{1, SIZE_MAX}));
    EXPECT_FALSE(mpi_bridge::too_long(std::vector<std::size_t>{half, half - 1}));
    EXPECT_FALSE(mpi_bridge::too_long(std::vector<std::size_t>{0, SIZE_MAX, 0}));
    EXPECT_FALSE(mpi_bridge::too_long({}));
}

}  // namespace
