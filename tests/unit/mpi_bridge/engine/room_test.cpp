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

// An operation of three ranks, one of which has too little room for the result.
struct Narrow {
    mpib_kind kind;
    std::size_t sent;             // values that each rank passes; all are its number
    std::vector<float> received;  // by each rank that has room
    int rank;                     // the one that has not
    std::size_t room;             // it has, in bytes
    std::string refusal;
};

Done call(Ranks::Rank& rank, const Narrow& narrow, std::vector<float>& recv, std::size_t room,
          unsigned flags) {
    Floats tensor("x", filled(narrow.sent, static_cast<float>(rank.rank())));
    tensor.operation.kind = narrow.kind;
    tensor.operation.flags = flags;
    (void)tensor.made();
    tensor.operation.recv = recv.data();
    tensor.operation.recv_bytes = room;
    return rank.engine().call(tensor.operation);
}

void expect_failure_on_all_ranks(const Narrow& narrow) {
    const std::size_t enough = narrow.received.size() * sizeof(float);
    for (const unsigned flags : {0U, MPIB_DEVICE}) {
        Ranks ranks(3);
        ranks.run([&](Ranks::Rank& rank) {
            for (int attempt = 0; attempt < 3; ++attempt) {
                std::vector<float> recv = filled(narrow.received.size(), -1);
                const std::size_t room = rank.rank() == narrow.rank ? narrow.room : enough;
                expect_refused(call(rank, narrow, recv, room, flags), narrow.refusal);
                EXPECT_THAT(recv, Each(-1));
                const auto done = call(rank, narrow, recv, enough, flags);
                ASSERT_TRUE(done) << done.error().text;
                EXPECT_EQ(recv, narrow.received);
            }
            // The later attempts are those of a plan, which goes on.
            EXPECT_GT(rank.counters().planned_buckets, 0U);
            EXPECT_EQ(rank.counters().plans_broken, 0U);
            expect_works(rank);
        });
        EXPECT_TRUE(ranks.at(0).failures().empty());
    }
}

// Breaks when the rows of other ranks are written beyond the end of recv.
TEST(EngineRoom, AnAllgatherThatDoesNotFitOnOneRankFailsOnAllAndWritesNothing) {
    expect_failure_on_all_ranks(
        {.kind = MPIB_ALLGATHER,
         .sent = 2,
         .received = {0, 0, 1, 1, 2, 2},
         .rank = 1,
         .room = 20,
         .refusal = "allgather \"x\": the result has 24 bytes on rank 1, where recv can hold 20"});
}

TEST(EngineRoom, AnAlltoallThatDoesNotFitOnOneRankFailsOnAllAndWritesNothing) {
    expect_failure_on_all_ranks(
        {.kind = MPIB_ALLTOALL,
         .sent = 3,
         .received = {0, 1, 2},
         .rank = 2,
         .room = 8,
         .refusal = "alltoall \"x\": the result has 12 bytes on rank 2, where recv can hold 8"});
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

// Breaks when rows of other ranks are written over send before it has been read.
TEST(EngineRoom, AnAllgatherMaySendFromAnywhereInRecv) {
    Ranks ranks(3);
    ranks.run([&](Ranks::Rank& rank) {
        for (std::size_t place = 0; place <= 4; ++place) {
            std::vector<float> recv = filled(6, -1);
            recv[place] = recv[place + 1] = static_cast<float>(rank.rank());
            Floats tensor("gathered", {0, 0});
            tensor.operation.kind = MPIB_ALLGATHER;
            (void)tensor.made();
            tensor.operation.send = recv.data() + place;
            tensor.operation.recv = recv.data();
            tensor.operation.recv_bytes = 24;
            const auto done = rank.engine().call(tensor.operation);
            ASSERT_TRUE(done) << done.error().text;
            EXPECT_EQ(recv, (std::vector<float>{0, 0, 1, 1, 2, 2})) << place;
        }
    });
}

// The value at `index` of what a rank of three gets when each passes `count` values, all of them
// its number plus one.
int expected_at(mpib_kind kind, int rank, std::size_t count, std::size_t index) {
    switch (kind) {
        case MPIB_ALLGATHER:
            return static_cast<int>(index / count) + 1;
        case MPIB_ALLTOALL:
            return static_cast<int>(index / (count / 3)) + 1;
        case MPIB_BROADCAST:
            return 1;
        case MPIB_REDUCE:
            return rank == 0 ? 6 : 0;
        case MPIB_REDUCE_SCATTER:
            return index < count / 3 ? 6 : 0;
        default:
            return 6;
    }
}

TEST(EngineRoom, BuffersNeedNoAlignment) {
    Ranks ranks(3);
    ranks.run([&](Ranks::Rank& rank) {
        constexpr std::size_t count = 3000;
        const auto values = filled(count, static_cast<float>(rank.rank() + 1));
        for (const mpib_kind kind : {MPIB_ALLREDUCE, MPIB_ALLGATHER, MPIB_BROADCAST,
                                     MPIB_REDUCE_SCATTER, MPIB_ALLTOALL, MPIB_REDUCE}) {
            const std::size_t received = kind == MPIB_ALLGATHER ? 3 * count : count;
            for (int step = 0; step < 4; ++step) {
                std::vector<std::byte> send(count * sizeof(float) + 1);
                std::vector<std::byte> recv(received * sizeof(float) + 1);
                std::memcpy(send.data() + 1, values.data(), count * sizeof(float));
                Floats tensor("unaligned" + std::to_string(kind), filled(count, 0));
                tensor.operation.kind = kind;
                (void)tensor.made();
                tensor.operation.send = send.data() + 1;
                tensor.operation.recv = recv.data() + 1;
                tensor.operation.recv_bytes = received * sizeof(float);
                const auto done = rank.engine().call(tensor.operation);
                ASSERT_TRUE(done) << done.error().text;
                std::vector<float> results(received);
                std::memcpy(results.data(), recv.data() + 1, received * sizeof(float));
                for (std::size_t index = 0; index < received; ++index) {
                    ASSERT_EQ(static_cast<int>(results[index]),
                              expected_at(kind, rank.rank(), count, index))
                        << "kind " << kind << ", value " << index;
                }
            }
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
