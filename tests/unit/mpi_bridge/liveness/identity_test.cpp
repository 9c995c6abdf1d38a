// SPDX-License-Identifier: Apache-2.0
#include "liveness/identity.hpp"

#include <csignal>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/process_stat.hpp"

namespace {

using mpi_bridge::HeartbeatAddress;
using mpi_bridge::RankIdentity;
using mpi_bridge::state_of;

TEST(RankIdentity, IsThisProcess) {
    const auto own = RankIdentity::own();
    EXPECT_EQ(own.process, getpid());
    EXPECT_NE(own.start, 0U);
    EXPECT_FALSE(own.host.empty());
    EXPECT_THAT(state_of(own), testing::AnyOf('R', 'S'));
}

TEST(RankIdentity, TellsAStoppedProcessFromOneThatHasEnded) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        for (;;)
            pause();
    }
    const auto stat =
        mpi_bridge::parse_process_stat(*mpi_bridge::read_process_stat(std::to_string(child)));
    ASSERT_TRUE(stat);
    RankIdentity identity{.host = "here", .process = child, .start = stat->start};
    ASSERT_EQ(kill(child, SIGSTOP), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
    EXPECT_EQ(state_of(identity), 'T');
    // A later process of the same number, or one of another container's.
    RankIdentity other = identity;
    ++other.start;
    EXPECT_EQ(state_of(other), mpi_bridge::process_state::unknown);
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(state_of(identity), mpi_bridge::process_state::ended);
}

TEST(HeartbeatAddress, ComesBackFromItsBytes) {
    const HeartbeatAddress address{{.host = "node-17", .process = 4711, .start = 99},
                                   {std::byte{1}, std::byte{2}}};
    const auto parsed = HeartbeatAddress::parse(address.bytes());
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->identity.host, "node-17");
    EXPECT_EQ(parsed->identity.process, 4711);
    EXPECT_EQ(parsed->identity.start, 99U);
    EXPECT_EQ(parsed->endpoint, address.endpoint);
}

TEST(HeartbeatAddress, IsRefusedWhenItIsCutOrSaysALengthThatItDoesNotHave) {
    const HeartbeatAddress address{{.host = "node-17", .process = 4711, .start = 99}, {}};
    auto bytes = address.bytes();
    for (std::size_t length = 0; length < bytes.size(); ++length)
        EXPECT_FALSE(HeartbeatAddress::parse(std::span(bytes).first(length))) << length;
    const std::uint32_t long_host = 0xffffffff;
    std::memcpy(bytes.data() + 12, &long_host, sizeof long_host);
    EXPECT_FALSE(HeartbeatAddress::parse(bytes));
}

}  // namespace
