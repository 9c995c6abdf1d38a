// SPDX-License-Identifier: Apache-2.0
//
// Communicators whose process fails.
#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../in_process_transport.hpp"
#include "collectives/communicator.hpp"
#include "core/failure_token.hpp"

namespace {

using mpi_bridge::Communicator;
using mpi_bridge::Done;
using mpi_bridge::FailureToken;
using mpi_bridge::Seconds;
using testing::HasSubstr;

// Breaks when a failure is forgotten because there was no shared memory yet that could be told.
TEST(AbandonedCommunicator, FailsOnAllRanksIfTheFailureCameBeforeTheSharedMemory) {
    mpi_bridge_test::Post post;
    std::array<FailureToken, 2> failures;
    std::vector<std::unique_ptr<mpi_bridge_test::InProcessTransport>> transports;
    std::vector<std::unique_ptr<Communicator>> communicators;
    for (int rank = 0; rank < 2; ++rank) {
        transports.push_back(std::make_unique<mpi_bridge_test::InProcessTransport>(post, rank, 2));
        Communicator::Options options;
        options.group = {.ranks = {0, 1}, .own = rank, .hosts = {0, 0}};
        options.failure = &failures.at(static_cast<std::size_t>(rank));
        options.settings.model = "tcp";
        auto opened = Communicator::open(*transports.back(), std::move(options));
        ASSERT_TRUE(opened) << opened.error().text;
        communicators.push_back(std::move(*opened));
    }
    failures[0].fail({MPIB_ERROR_TIMEOUT, "out of patience"});
    std::array<Done, 2> outcomes;
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < 2; ++rank) {
        threads.emplace_back([&, rank] {
            outcomes.at(rank) = communicators[rank]->barrier(
                {.name = "test", .agreement = 0, .patience = Seconds(20)});
        });
    }
    for (auto& thread : threads)
        thread.join();
    for (const Done& outcome : outcomes) {
        ASSERT_FALSE(outcome);
        EXPECT_THAT(outcome.error().text, HasSubstr("out of patience"));
    }
}

}  // namespace
