// SPDX-License-Identifier: Apache-2.0
//
// Ranks that are threads of one process meet by an exchange of their own.
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "bootstrap/bootstrap.hpp"

namespace mpi_bridge {
namespace {

// What all ranks have given, by the number of the exchange.
struct Board {
    std::mutex mutex;
    std::condition_variable given;
    std::map<int, std::map<int, std::string>> exchanges;
};

// One rank's way to the others.
struct Way {
    Board* board = nullptr;
    int rank = 0;
    int size = 0;
    int exchanges = 0;
    int left_out = -1;  // a rank that is not handed over
    int result = 0;

    static int exchange(void* context, const void* data, size_t bytes, double /*seconds*/,
                        mpib_give give, void* receiver) {
        auto& way = *static_cast<Way*>(context);
        std::unique_lock lock(way.board->mutex);
        auto& all = way.board->exchanges[way.exchanges++];
        all[way.rank].assign(static_cast<const char*>(data), bytes);
        way.board->given.notify_all();
        way.board->given.wait(lock, [&] { return static_cast<int>(all.size()) == way.size; });
        for (const auto& [rank, value] : all)
            if (rank != way.left_out) give(receiver, rank, value.data(), value.size());
        give(receiver, way.size, "", 0);  // there is no such rank
        return way.result;
    }

    [[nodiscard]] mpib_meeting meeting() {
        return {sizeof(mpib_meeting), rank, size, this, &Way::exchange};
    }
};

Outcome<std::unique_ptr<Bootstrap>> joined(Way& way) {
    return connect_by(way.meeting(), Deadline::in(Seconds(30)));
}

// Breaks when a rank does not get what another one has published.
TEST(MeetingBootstrap, EachRankFindsWhatTheOthersHavePublished) {
    static constexpr int size = 3;
    Board board;
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < size; ++rank) {
        ranks.emplace_back([&board, rank] {
            Way way{.board = &board, .rank = rank, .size = size};
            auto bootstrap = joined(way);
            ASSERT_TRUE(bootstrap) << bootstrap.error().text;
            const Topology& topology = (*bootstrap)->topology();
            EXPECT_EQ(topology.rank, rank);
            EXPECT_EQ(topology.size, size);
            EXPECT_EQ(topology.local_size, size);
            EXPECT_EQ(topology.local_rank, rank);
            const std::string own = "of " + std::to_string(rank);
            const auto deadline = Deadline::in(Seconds(30));
            const auto done =
                (*bootstrap)->publish("key", std::as_bytes(std::span(own)), deadline, {});
            ASSERT_TRUE(done) << done.error().text;
            for (int other = 0; other < size; ++other) {
                const auto value = (*bootstrap)->fetch("key", other, deadline, {});
                ASSERT_TRUE(value) << value.error().text;
                const std::string text(reinterpret_cast<const char*>(value->data()), value->size());
                EXPECT_EQ(text, "of " + std::to_string(other));
            }
            EXPECT_FALSE((*bootstrap)->fetch("another key", 0, deadline, {}));
            EXPECT_FALSE((*bootstrap)->fetch("key", size, deadline, {}));
        });
    }
    for (auto& rank : ranks)
        rank.join();
}

// Breaks when a rank goes on without the others.
TEST(MeetingBootstrap, AnExchangeThatFailsIsAFailure) {
    Board board;
    Way failing{.board = &board, .size = 1, .result = 1};
    auto failed = joined(failing);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().status, MPIB_ERROR_BOOTSTRAP);
    Board other;
    Way incomplete{.board = &other, .size = 1, .left_out = 0};
    failed = joined(incomplete);
    ASSERT_FALSE(failed);
    EXPECT_NE(failed.error().text.find("nothing of rank 0"), std::string::npos);
}

TEST(MeetingBootstrap, AMeetingThatCannotBeIsRefused) {
    Board board;
    for (const auto& [rank, size] : {std::pair(0, 0), std::pair(-1, 2), std::pair(2, 2)}) {
        Way way{.board = &board, .rank = rank, .size = size};
        const auto refused = joined(way);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().status, MPIB_ERROR_INVALID_ARGUMENT);
    }
    Way way{.board = &board, .size = 1};
    auto meeting = way.meeting();
    meeting.struct_bytes = 1;
    EXPECT_FALSE(connect_by(meeting, Deadline::in(Seconds(1))));
}

}  // namespace
}  // namespace mpi_bridge
