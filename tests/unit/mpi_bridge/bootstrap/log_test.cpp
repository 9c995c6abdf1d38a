// SPDX-License-Identifier: Apache-2.0
#include "core/log.hpp"

#include <cstdlib>

#include <gtest/gtest.h>

namespace {

using mpi_bridge::log;
using mpi_bridge::LogLevel;

// The level is read once per process, so each look needs a process of its own.
void print_at(const char* level) {
    if (level == nullptr) {
        unsetenv("MPI_BRIDGE_LOG");
    } else {
        setenv("MPI_BRIDGE_LOG", level, 1);
    }
    mpi_bridge::set_log_rank(3);
    log(LogLevel::error, "e");
    log(LogLevel::warning, "w");
    log(LogLevel::info, "i");
    log(LogLevel::debug, "d");
    std::_Exit(0);
}

TEST(LogDeathTest, PrintsErrorsAndWarningsUnlessTold) {
    EXPECT_EXIT(print_at(nullptr), testing::ExitedWithCode(0),
                "^mpi_bridge: rank 3: error: e\nmpi_bridge: rank 3: warning: w\n$");
    EXPECT_EXIT(print_at("error"), testing::ExitedWithCode(0), "^mpi_bridge: rank 3: error: e\n$");
    EXPECT_EXIT(print_at("debug"), testing::ExitedWithCode(0),
                "mpi_bridge: rank 3: i\nmpi_bridge: rank 3: d\n$");
}

TEST(LogDeathTest, SaysThatALevelIsUnknown) {
    EXPECT_EXIT(print_at("loud"), testing::ExitedWithCode(0), "\"loud\" is not one of error");
}

TEST(Log, KnowsTheNamesOfTheLevels) {
    EXPECT_EQ(mpi_bridge::parse_log_level("info"), LogLevel::info);
    EXPECT_EQ(mpi_bridge::parse_log_level("INFO"), std::nullopt);
}

}  // namespace
