// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/mpi_bridge/engine/ranks.hpp"

namespace {

using namespace mpi_bridge_test;

void allreduce(Ranks::Rank& rank, const std::string& name, mpib_op op, float value,
               float expected) {
    for (const std::size_t length : {std::size_t{3}, std::size_t{20000}}) {
        Floats tensor(name + std::to_string(length), std::vector<float>(length, value));
        tensor.operation.op = op;
        const auto done = rank.engine().call(tensor.made());
        ASSERT_TRUE(done) << done.error().text;
        ASSERT_EQ(tensor.recv, std::vector<float>(length, expected));
    }
}

TEST(EngineJoin, TellsEveryRankWhoCameLast) {
    for (const int size : {1, 2, 4}) {
        Ranks ranks(size);
        ranks.run([&](Ranks::Rank& rank) {
            for (int round = 0; round < 3; ++round) {
                const int last = round % size;
                // Done when all others have joined, and not before.
                if (rank.rank() == last) allreduce(rank, "alone", MPIB_SUM, 1, 1);
                const auto joined = rank.engine().join();
                ASSERT_TRUE(joined) << joined.error().text;
                ASSERT_EQ(*joined, last);
            }
        });
    }
}

// Ranks have different numbers of steps; those that are through count as neutral elements.
TEST(EngineJoin, LetsTheOthersGoOnWithNeutralElements) {
    constexpr int size = 3;
    for (const int first_steps : {1, 8}) {
        Ranks ranks(size);
        ranks.run([&](Ranks::Rank& rank) {
            for (int epoch = 0; epoch < 2; ++epoch) {
                const int steps = first_steps + 4 * rank.rank();
                for (int step = 0; step < steps; ++step) {
                    int present = 0;
                    int lowest = size;
                    for (int other = size - 1; other >= 0; --other) {
                        if (step >= first_steps + 4 * other) continue;
                        ++present;
                        lowest = other;
                    }
                    const auto own = static_cast<float>(rank.rank() + 1);
                    allreduce(rank, "sum", MPIB_SUM, 1, static_cast<float>(present));
                    allreduce(rank, "min", MPIB_MIN, own, static_cast<float>(lowest + 1));
                    allreduce(rank, "max", MPIB_MAX, -own, static_cast<float>(-(lowest + 1)));
                    allreduce(rank, "product", MPIB_PRODUCT, 2, static_cast<float>(1 << present));
                }
                const auto joined = rank.engine().join();
                ASSERT_TRUE(joined) << joined.error().text;
                ASSERT_EQ(*joined, size - 1);
            }
        });
    }
}

TEST(EngineJoin, RefusesOtherOperationsWhileSomeHaveJoined) {
    Ranks ranks(3);
    ranks.run([&](Ranks::Rank& rank) {
        if (rank.rank() != 0) {
            Floats tensor("weights", {1, 2});
            tensor.operation.kind = MPIB_BROADCAST;
            tensor.operation.root = 1;
            const auto done = rank.engine().call(tensor.made());
            ASSERT_FALSE(done);
            EXPECT_EQ(done.error().status, MPIB_ERROR_INVALID_ARGUMENT);
            EXPECT_NE(done.error().text.find("rank 0 has joined"), std::string::npos)
                << done.error().text;
            allreduce(rank, "sum", MPIB_SUM, 1, 2);
        }
        ASSERT_TRUE(rank.engine().join());
        allreduce(rank, "sum", MPIB_SUM, 1, 3);
    });
}

TEST(EngineJoin, RefusesSubmissionsOfTheRankThatHasJoined) {
    Ranks ranks(2);
    std::atomic<bool> refused{false};
    ranks.run([&](Ranks::Rank& rank) {
        if (rank.rank() == 0) {
            mpib_operation join{};
            join.struct_bytes = sizeof join;
            join.kind = MPIB_JOIN;
            const auto handle = submit(rank.engine(), join);
            Floats tensor("x", {1});
            const auto other = rank.engine().submit(tensor.made());
            ASSERT_FALSE(other);
            EXPECT_NE(other.error().text.find("join"), std::string::npos) << other.error().text;
            refused = true;
            ASSERT_TRUE(rank.engine().wait(handle, 0));
            const auto result = rank.engine().result(handle);
            ASSERT_TRUE(result);
            EXPECT_EQ(result->last_joined, 1);
            ASSERT_TRUE(rank.engine().release(handle));
        } else {
            while (!refused)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            ASSERT_TRUE(rank.engine().join());
        }
    });
}

}  // namespace
