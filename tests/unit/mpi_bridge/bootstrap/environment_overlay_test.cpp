// SPDX-License-Identifier: Apache-2.0
#include "core/environment_overlay.hpp"

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace {

using mpi_bridge::EnvironmentOverlay;
using Variables = std::vector<std::pair<std::string, std::string>>;
using testing::IsNull;
using testing::StrEq;

std::vector<char*> entries_of(char** list) {
    std::vector<char*> entries;
    for (; *list != nullptr; ++list)
        entries.push_back(*list);
    return entries;
}

TEST(EnvironmentOverlay, AddsWhatIsNotSetAndTakesItBack) {
    setenv("MPI_BRIDGE_TEST_SET", "by the user", 1);
    {
        const EnvironmentOverlay overlay(
            Variables{{"MPI_BRIDGE_TEST_SET", "by us"}, {"MPI_BRIDGE_TEST_UNSET", "by us"}});
        EXPECT_THAT(getenv("MPI_BRIDGE_TEST_SET"), StrEq("by the user"));
        EXPECT_THAT(getenv("MPI_BRIDGE_TEST_UNSET"), StrEq("by us"));
    }
    EXPECT_THAT(getenv("MPI_BRIDGE_TEST_SET"), StrEq("by the user"));
    EXPECT_THAT(getenv("MPI_BRIDGE_TEST_UNSET"), IsNull());
    unsetenv("MPI_BRIDGE_TEST_SET");
}

// Breaks when a list is changed or moved that another thread may be reading, as setenv() and
// unsetenv() do.
TEST(EnvironmentOverlay, ChangesNoListThatAThreadMayBeReading) {
    char** const before = environ;
    const auto entries = entries_of(before);
    char** during = nullptr;
    std::vector<char*> entries_during;
    {
        const EnvironmentOverlay overlay(Variables{{"MPI_BRIDGE_TEST_UNSET", "by us"}});
        during = environ;
        entries_during = entries_of(during);
        EXPECT_NE(during, before);
        EXPECT_EQ(entries_of(before), entries);
    }
    EXPECT_EQ(environ, before);
    EXPECT_EQ(entries_of(before), entries);
    EXPECT_EQ(entries_of(during), entries_during);
}

TEST(EnvironmentOverlay, LeavesAListAloneThatCameMeanwhile) {
    {
        const EnvironmentOverlay overlay(Variables{{"MPI_BRIDGE_TEST_UNSET", "by us"}});
        setenv("MPI_BRIDGE_TEST_LATER", "by the user", 1);
    }
    EXPECT_THAT(getenv("MPI_BRIDGE_TEST_LATER"), StrEq("by the user"));
    unsetenv("MPI_BRIDGE_TEST_LATER");
    unsetenv("MPI_BRIDGE_TEST_UNSET");
}

TEST(EnvironmentOverlay, DoesNotDisturbThreadsThatAsk) {
    setenv("MPI_BRIDGE_TEST_SET", "by the user", 1);
    std::atomic<bool> stop{false};
    std::atomic<int> wrong{0};
    std::thread reader([&] {
        while (!stop) {
            const char* value = getenv("MPI_BRIDGE_TEST_SET");
            if (value == nullptr || std::string(value) != "by the user") ++wrong;
        }
    });
    for (int round = 0; round < 200; ++round)
        const EnvironmentOverlay overlay(Variables{{"MPI_BRIDGE_TEST_UNSET", "by us"}});
    stop = true;
    reader.join();
    EXPECT_EQ(wrong, 0);
    unsetenv("MPI_BRIDGE_TEST_SET");
}

}  // namespace
