// SPDX-License-Identifier: Apache-2.0
// The flags by which ranks keep in step, where the numbers in them wrap around.
#include "shm/rendezvous.hpp"

#include <cstdint>
#include <memory>
#include <new>
#include <thread>

#include <gtest/gtest.h>

namespace {

using mpi_bridge::Done;
using mpi_bridge::Seconds;
using mpi_bridge::Segment;
using mpi_bridge::SharedHeap;
using mpi_bridge::shm::Common;
using mpi_bridge::shm::Layout;
using mpi_bridge::shm::Measures;
using mpi_bridge::shm::Rendezvous;
using mpi_bridge::shm::Slot;

// Two ranks of this process.
class Pair {
  public:
    explicit Pair(std::uint32_t first_step) {
        const Measures measures{2, 64, 1024};
        auto made = Segment::create(Layout::bytes(measures));
        EXPECT_TRUE(made) << made.error().text;
        std::shared_ptr<Segment> segment(std::move(*made));
        EXPECT_TRUE(segment->reserve(0, Layout::bytes(measures), "a test"));
        const Layout layout(segment->memory(), measures);
        new (&layout.common()) Common{};
        for (int rank = 0; rank < 2; ++rank) {
            new (&layout.slot(rank)) Slot{};
            ranks_[rank] = std::make_unique<Rendezvous>(
                segment, layout,
                Rendezvous::Options{.rank = rank, .size = 2, .first_step = first_step});
            EXPECT_TRUE(ranks_[rank]->attach(SharedHeap::Ticket{}));
        }
    }
    [[nodiscard]] Rendezvous& operator[](int rank) const { return *ranks_[rank]; }

    // How far the flag of a rank is behind its steps.
    [[nodiscard]] std::uint32_t lag(int rank) const {
        return ranks_[rank]->steps() - ranks_[rank]->layout().slot(rank).progress;
    }
    // Every rank counts so many meetings, as calls do that exchange everything when they meet.
    void count_meetings(std::uint32_t count) const {
        for (const auto& rank : ranks_) {
            for (std::uint32_t meeting = 0; meeting < count; ++meeting)
                rank->count_meeting();
        }
    }

  private:
    std::unique_ptr<Rendezvous> ranks_[2];
};

// Rank 0 does one more step and waits for rank 1.
Done step_of_rank_0(const Pair& pair, double patience) {
    EXPECT_TRUE(pair[0].begin({"a test", 0, Seconds(patience)}));
    pair[0].advance();
    return pair[0].await_all();
}

// Breaks when flags fall behind by more with every call that needs no step of its own: after 2^31
// such calls an old flag would be taken for that of a rank which is ahead.
TEST(Rendezvous, AFlagIsNeverFarBehind) {
    for (const std::uint32_t first : {0U, 0x7ffffff0U, 0xfffffff0U}) {
        const Pair pair(first);
        for (int round = 0; round < 50; ++round) {
            pair.count_meetings(100);
            EXPECT_LE(pair.lag(0), 1024U);
            EXPECT_LE(pair.lag(1), 1024U);
        }
    }
}

TEST(Rendezvous, AwaitsARankAcrossTheWrapAround) {
    for (const std::uint32_t first : {0x7ffffffdU, 0xfffffffdU}) {
        const Pair pair(first);
        pair.count_meetings(1);
        for (int step = 0; step < 8; ++step) {
            std::thread other([&] {
                EXPECT_TRUE(pair[1].begin({"a test", 0, Seconds(30)}));
                pair[1].advance();
                EXPECT_TRUE(pair[1].await_all());
            });
            EXPECT_TRUE(step_of_rank_0(pair, 30));
            other.join();
        }
    }
}

TEST(Rendezvous, DoesNotTakeAnOldFlagForANewOne) {
    // Where the flag of rank 1 has the largest lag, on both sides of every change of sign.
    for (const std::uint32_t first : {0x7ffffc00U, 0x80000000U, 0xfffffc00U, 0U}) {
        const Pair pair(first);
        pair.count_meetings(1023);
        const auto done = step_of_rank_0(pair, 0.05);
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().status, MPIB_ERROR_TIMEOUT) << done.error().text;
    }
}

}  // namespace
