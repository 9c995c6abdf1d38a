// SPDX-License-Identifier: Apache-2.0
#include "liveness/heartbeat_message.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace {

using mpi_bridge::Failure;
using mpi_bridge::failure_neighbours;
using mpi_bridge::HeartbeatMessage;
using mpi_bridge::is_told_by_another_rank;

TEST(HeartbeatMessage, SaysOnWhichRankAFailureHappened) {
    const auto message = HeartbeatMessage::of_failure(3, {MPIB_ERROR_MISMATCH, "other arguments"});
    EXPECT_EQ(message.kind, HeartbeatMessage::Kind::failure);
    const Failure failure = message.failure();
    EXPECT_EQ(failure.status, MPIB_ERROR_MISMATCH);
    EXPECT_EQ(failure.text, "rank 3 failed: other arguments");
    EXPECT_EQ(failure.of_rank, 3);
    EXPECT_TRUE(is_told_by_another_rank(failure.text));
    EXPECT_FALSE(is_told_by_another_rank("other arguments"));
    EXPECT_FALSE(is_told_by_another_rank("rank 3 has gone"));
    EXPECT_FALSE(is_told_by_another_rank("rank  failed: x"));
}

TEST(HeartbeatMessage, CutsATextThatIsTooLong) {
    const std::string text(5000, 'x');
    const auto message = HeartbeatMessage::of_failure(0, {MPIB_ERROR_INTERNAL, text});
    EXPECT_EQ(message.failure().text, "rank 0 failed: " + text.substr(0, message.text.size() - 1));
}

TEST(HeartbeatMessage, OfALaterVersionIsNotKnown) {
    HeartbeatMessage message;
    EXPECT_TRUE(message.known());
    message.kind = static_cast<HeartbeatMessage::Kind>(5);
    EXPECT_FALSE(message.known());
}

TEST(FailureNeighbours, AreFewAndLeadToAllEvenIfOneHasDied) {
    for (const int size : {1, 2, 3, 5, 8, 17, 100, 1000}) {
        std::vector<int> dead{-1};
        for (int rank = 1; rank < std::min(size, 20); ++rank)
            dead.push_back(rank);
        for (const int missing : dead) {
            std::vector<bool> told(static_cast<std::size_t>(size));
            std::vector<int> next{0};
            told[0] = true;
            while (!next.empty()) {
                const int rank = next.back();
                next.pop_back();
                const auto neighbours = failure_neighbours(rank, size);
                EXPECT_LE(neighbours.size(), 12U);
                for (const int other : neighbours) {
                    EXPECT_NE(other, rank);
                    if (other == missing || told[static_cast<std::size_t>(other)]) continue;
                    told[static_cast<std::size_t>(other)] = true;
                    next.push_back(other);
                }
            }
            EXPECT_EQ(std::count(told.begin(), told.end(), false), missing < 0 ? 0 : 1)
                << size << " ranks without " << missing;
        }
    }
}

}  // namespace
