// SPDX-License-Identifier: Apache-2.0
// What fits into recv, where recv may be, and what happens when the result is longer.
#include <cstddef>
#include <cstdint>

#include <gmock/gmock.h>

#include "tests/unit/mpi_bridge/engine/ranks.hpp"

namespace {

using namespace mpi_bridge_test;
using mpi_bridge::Done;
using testing::Each;
using testing::HasSubstr;

std::vector<float> filled(std::size_t count, float value) {
    return std::vector<float>(count, value);
}

void expect_works(Ranks::Rank& rank) {
    for (int step = 0; step < 4; ++step) {
        Floats tensor("after", {1, 2});
        const auto done = rank.engine().call(tensor.made());
        ASSERT_TRUE(done) << done.error().text;
        ASSERT_EQ(tensor.recv[0], static_cast<float>(rank.size()));
    }
}

void expect_refused(const Done& done, const std::string& text) {
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().status, MPIB_ERROR_MISMATCH);
    EXPECT_THAT(done.error().text, HasSubstr(text));
}

// Every rank passes two rows and has `room` bytes for the six rows of three ranks.
Done gather(Ranks::Rank& rank, std::vector<float>& recv, std::size_t room, unsigned flags) {
    Floats tensor("gathered", filled(2, static_cast<float>(rank.rank())));
    tensor.operation.kind = MPIB_ALLGATHER;
    tensor.operation.flags = flags;
    (void)tensor.made();
    tensor.operation.recv = recv.data();
    tensor.operation.recv_bytes = room;
    return rank.engine().call(tensor.operation);
}

// Breaks when the rows of other ranks are written beyond the end of recv.
TEST(EngineRoom, AnAllgatherThatDoesNotFitOnOneRankFailsOnAllAndWritesNothing) {
    for (const unsigned flags : {0U, MPIB_DEVICE}) {
        Ranks ranks(3);
        ranks.run([&](Ranks::Rank& rank) {
            for (int attempt = 0; attempt < 3; ++attempt) {
                std::vector<float> recv = filled(6, -1);
                const std::size_t room = rank.rank() == 1 ? 20 : 24;
                expect_refused(gather(rank, recv, room, flags),
                               "allgather \"gathered\": the result has 24 bytes on rank 1, where "
                               "recv can hold 20");
                EXPECT_THAT(recv, Each(-1));
                const auto done = gather(rank, recv, 24, flags);
                ASSERT_TRUE(done) << done.error().text;
                EXPECT_EQ(recv, (std::vector<float>{0, 0, 1, 1, 2, 2}));
            }
            expect_works(rank);
        });
        EXPECT_TRUE(ranks.at(0).failures().empty());
    }
}

// Every rank passes one row to each, and has room for `room` bytes.
Done exchange(Ranks::Rank& rank, std::vector<float>& recv, std::size_t room, unsigned flags) {
    Floats tensor("exchanged",
                  filled(static_cast<std::size_t>(rank.size()), static_cast<float>(rank.rank())));
    tensor.operation.kind = MPIB_ALLTOALL;
    tensor.operation.flags = flags;
    (void)tensor.made();
    tensor.operation.recv = recv.data();
    tensor.operation.recv_bytes = room;
    return rank.engine().call(tensor.operation);
}

TEST(EngineRoom, AnAlltoallThatDoesNotFitOnOneRankFailsOnAllAndWritesNothing) {
    for (const unsigned flags : {0U, MPIB_DEVICE}) {
        Ranks ranks(3);
        ranks.run([&](Ranks::Rank& rank) {
            for (int attempt = 0; attempt < 3; ++attempt) {
                std::vector<float> recv = filled(3, -1);
                const std::size_t room = rank.rank() == 2 ? 8 : 12;
                expect_refused(exchange(rank, recv, room, flags),
                               "alltoall \"exchanged\": the result has 12 bytes on rank 2, where "
                               "recv can hold 8");
                EXPECT_THAT(recv, Each(-1));
                const auto done = exchange(rank, recv, 12, flags);
                ASSERT_TRUE(done) << done.error().text;
                EXPECT_EQ(recv, (std::vector<float>{0, 1, 2}));
            }
            expect_works(rank);
        });
        EXPECT_TRUE(ranks.at(0).failures().empty());
    }
}

TEST(EngineRoom, ARankWithoutAnyRoomIsToldApartFromOneThatLeavesItToTheEngine) {
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        for (const std::int64_t rows : {0, 1}) {
            Floats tensor("gathered", filled(static_cast<std::size_t>(rows), 4));
            tensor.operation.kind = MPIB_ALLGATHER;
            (void)tensor.made();
            tensor.operation.recv = nullptr;
            tensor.operation.recv_bytes = rank.rank() == 0 ? MPIB_NO_BYTES : 0;
            const auto done = finish(rank.engine(), submit(rank.engine(), tensor.operation));
            if (rows == 0) {
                EXPECT_TRUE(done) << done.error().text;
            } else {
                expect_refused(done, "8 bytes on rank 0, where recv can hold 0");
            }
        }
        expect_works(rank);
    });
}

TEST(EngineRoom, MustBeGivenWhereOtherRanksDecideTheLength) {
    Ranks ranks(1);
    for (const mpib_kind kind : {MPIB_ALLGATHER, MPIB_ALLTOALL}) {
        Floats tensor("x", {1});
        tensor.operation.kind = kind;
        (void)tensor.made();
        tensor.operation.recv_bytes = 0;
        const auto refused = ranks.at(0).engine().submit(tensor.operation);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().status, MPIB_ERROR_INVALID_ARGUMENT);
        EXPECT_THAT(refused.error().text, HasSubstr("recv_bytes is 0"));
    }
}

TEST(EngineRoom, OfOtherKindsIsCheckedWhereItIsGiven) {
    Ranks ranks(1);
    for (const mpib_kind kind :
         {MPIB_ALLREDUCE, MPIB_BROADCAST, MPIB_REDUCE, MPIB_REDUCE_SCATTER}) {
        for (const std::size_t room : {std::size_t{7}, MPIB_NO_BYTES}) {
            Floats tensor("x", {1, 2});
            tensor.operation.kind = kind;
            (void)tensor.made();
            tensor.operation.recv_bytes = room;
            const auto refused = ranks.at(0).engine().submit(tensor.operation);
            ASSERT_FALSE(refused);
            EXPECT_EQ(refused.error().status, MPIB_ERROR_INVALID_ARGUMENT);
            EXPECT_THAT(refused.error().text, HasSubstr("but the result has 8"));
        }
        for (const std::size_t room : {0U, 8U, 9U}) {
            Floats tensor("x", {1, 2});
            tensor.operation.kind = kind;
            (void)tensor.made();
            tensor.operation.recv_bytes = room;
            const auto done = ranks.at(0).engine().call(tensor.operation);
            EXPECT_TRUE(done) << done.error().text;
            EXPECT_EQ(tensor.recv, tensor.send);
        }
    }
}

TEST(EngineRoom, AnOverlapIsRefusedBeforeAnythingIsSent) {
    Ranks ranks(1);
    auto& engine = ranks.at(0).engine();
    for (const mpib_kind kind :
         {MPIB_ALLREDUCE, MPIB_BROADCAST, MPIB_REDUCE, MPIB_REDUCE_SCATTER, MPIB_ALLTOALL}) {
        std::vector<float> memory = filled(8, 1);
        Floats tensor("x", filled(4, 1));
        tensor.operation.kind = kind;
        (void)tensor.made();
        tensor.operation.send = memory.data();
        tensor.operation.recv = memory.data() + 3;
        const auto refused = engine.submit(tensor.operation);
        ASSERT_FALSE(refused) << kind;
        EXPECT_EQ(refused.error().status, MPIB_ERROR_INVALID_ARGUMENT);
        EXPECT_THAT(refused.error().text, HasSubstr("overlap"));
        tensor.operation.recv = memory.data() + 4;
        EXPECT_TRUE(engine.call(tensor.operation)) << kind;
        tensor.operation.recv = memory.data();
        const bool in_place = kind != MPIB_REDUCE_SCATTER && kind != MPIB_ALLTOALL;
        EXPECT_EQ(engine.call(tensor.operation).has_value(), in_place) << kind;
    }
}

TEST(EngineRoom, AnAllgatherMaySendFromItsPlaceInRecv) {
    Ranks ranks(3);
    ranks.run([&](Ranks::Rank& rank) {
        std::vector<float> recv = filled(6, -1);
        const auto own = static_cast<std::size_t>(2 * rank.rank());
        recv[own] = recv[own + 1] = static_cast<float>(rank.rank());
        Floats tensor("gathered", {0, 0});
        tensor.operation.kind = MPIB_ALLGATHER;
        (void)tensor.made();
        tensor.operation.send = recv.data() + own;
        tensor.operation.recv = recv.data();
        tensor.operation.recv_bytes = 24;
        const auto done = rank.engine().call(tensor.operation);
        ASSERT_TRUE(done) << done.error().text;
        EXPECT_EQ(recv, (std::vector<float>{0, 0, 1, 1, 2, 2}));
    });
}

TEST(EngineRoom, BuffersNeedNoAlignment) {
    Ranks ranks(3);
    ranks.run([&](Ranks::Rank& rank) {
        constexpr std::size_t count = 3000;
        std::vector<std::byte> send(count * sizeof(float) + 1);
        std::vector<std::byte> recv(send.size());
        const auto values = filled(count, static_cast<float>(rank.rank() + 1));
        std::memcpy(send.data() + 1, values.data(), count * sizeof(float));
        for (int step = 0; step < 4; ++step) {
            Floats tensor("unaligned", filled(count, 0));
            (void)tensor.made();
            tensor.operation.send = send.data() + 1;
            tensor.operation.recv = recv.data() + 1;
            const auto done = rank.engine().call(tensor.operation);
            ASSERT_TRUE(done) << done.error().text;
            std::vector<float> sums(count);
            std::memcpy(sums.data(), recv.data() + 1, count * sizeof(float));
            ASSERT_EQ(sums, filled(count, 6));
        }
    });
}

TEST(EngineRoom, AProgramOfAnotherVersionIsRefused) {
    Ranks ranks(1);
    Floats tensor("x", {1});
    (void)tensor.made();
    tensor.operation.struct_bytes = offsetof(mpib_operation, recv_bytes);
    const auto refused = ranks.at(0).engine().submit(tensor.operation);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, MPIB_ERROR_INVALID_ARGUMENT);
    EXPECT_THAT(refused.error().text, HasSubstr("struct_bytes"));
}

}  // namespace
