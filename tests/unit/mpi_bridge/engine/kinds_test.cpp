// SPDX-License-Identifier: Apache-2.0
#include "reduce/reduction.hpp"
#include "tests/unit/mpi_bridge/engine/ranks.hpp"

namespace {

using namespace mpi_bridge_test;

constexpr int steps = 5;  // some negotiated, some planned
const std::vector<int> sizes = {1, 2, 3, 5};

std::vector<float> floats(int count, float first) {
    std::vector<float> values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), first);
    return values;
}

TEST(EngineKinds, BroadcastReachesAllFromEveryRoot) {
    for (const int size : sizes) {
        Ranks ranks(size);
        ranks.run([&](Ranks::Rank& rank) {
            for (int step = 0; step < steps; ++step) {
                for (int root = 0; root < size; ++root) {
                    Floats tensor("weights/" + std::to_string(root),
                                  floats(7, static_cast<float>(rank.rank() * 100 + step)));
                    tensor.operation.kind = MPIB_BROADCAST;
                    tensor.operation.root = root;
                    const auto done = rank.engine().call(tensor.made());
                    ASSERT_TRUE(done) << done.error().text;
                    ASSERT_EQ(tensor.recv, floats(7, static_cast<float>(root * 100 + step)));
                }
            }
        });
        EXPECT_EQ(ranks.at(0).counters().plans_made, 1U);
    }
}

TEST(EngineKinds, ReduceGivesTheResultToTheRoot) {
    for (const int size : sizes) {
        Ranks ranks(size);
        ranks.run([&](Ranks::Rank& rank) {
            for (int step = 0; step < steps; ++step) {
                Floats tensor("loss", floats(4, static_cast<float>(rank.rank())));
                tensor.operation.kind = MPIB_REDUCE;
                tensor.operation.op = MPIB_MAX;
                tensor.operation.root = size - 1;
                tensor.operation.postscale = 2;
                (void)tensor.made();
                if (rank.rank() != size - 1) tensor.operation.recv = nullptr;
                const auto done = rank.engine().call(tensor.operation);
                ASSERT_TRUE(done) << done.error().text;
                if (rank.rank() != size - 1) continue;
                for (std::size_t at = 0; at < 4; ++at)
                    ASSERT_EQ(tensor.recv[at],
                              2 * static_cast<float>(size - 1 + static_cast<int>(at)));
            }
        });
    }
}

TEST(EngineKinds, ReduceScatterGivesTheLongerPartsToLowRanks) {
    for (const int size : sizes) {
        Ranks ranks(size);
        ranks.run([&](Ranks::Rank& rank) {
            for (int step = 0; step < steps; ++step) {
                constexpr int rows = 7;
                Floats tensor("scattered", floats(rows * 2, 0));
                tensor.shape = {rows, 2};
                tensor.operation.kind = MPIB_REDUCE_SCATTER;
                (void)tensor.made();
                tensor.operation.recv = nullptr;
                const auto handle = submit(rank.engine(), tensor.operation);
                const auto done = rank.engine().wait(handle, 0);
                ASSERT_TRUE(done) << done.error().text;
                const auto result = rank.engine().result(handle);
                ASSERT_TRUE(result);
                const int longer = rows % size;
                const int own = rows / size + (rank.rank() < longer ? 1 : 0);
                const int first = rank.rank() * (rows / size) + std::min(rank.rank(), longer);
                ASSERT_EQ(result->rows, own);
                ASSERT_EQ(result->bytes, static_cast<std::size_t>(own) * 2 * sizeof(float));
                const auto* data = static_cast<const float*>(result->data);
                for (int at = 0; at < own * 2; ++at)
                    ASSERT_EQ(data[at], static_cast<float>((first * 2 + at) * size));
                ASSERT_TRUE(rank.engine().release(handle));
            }
        });
    }
}

TEST(EngineKinds, AllgatherTakesADifferentNumberOfRowsFromEachRank) {
    for (const int size : sizes) {
        Ranks ranks(size);
        ranks.run([&](Ranks::Rank& rank) {
            for (int step = 0; step < steps; ++step) {
                const int rows = (rank.rank() + step) % 3;
                Floats tensor("indices", floats(rows * 2, static_cast<float>(rank.rank() * 10)));
                tensor.shape = {rows, 2};
                tensor.operation.kind = MPIB_ALLGATHER;
                (void)tensor.made();
                tensor.operation.recv = nullptr;
                const auto handle = submit(rank.engine(), tensor.operation);
                const auto done = rank.engine().wait(handle, 0);
                ASSERT_TRUE(done) << done.error().text;
                const auto result = rank.engine().result(handle);
                ASSERT_TRUE(result);
                ASSERT_EQ(result->members, size);
                const auto* data = static_cast<const float*>(result->data);
                std::int64_t total = 0;
                for (int other = 0; other < size; ++other) {
                    ASSERT_EQ(result->received_rows[other], (other + step) % 3);
                    for (int at = 0; at < (other + step) % 3 * 2; ++at)
                        ASSERT_EQ(data[total * 2 + at], static_cast<float>(other * 10 + at));
                    total += result->received_rows[other];
                }
                ASSERT_EQ(result->rows, total);
                ASSERT_TRUE(rank.engine().release(handle));
            }
        });
        EXPECT_EQ(ranks.at(0).counters().plans_made, 1U);
        EXPECT_GT(ranks.at(0).counters().planned_buckets, 0U);
    }
}

// Rank r sends r + s + step rows to rank s.
TEST(EngineKinds, AlltoallSendsEachRankItsSplit) {
    for (const int size : sizes) {
        Ranks ranks(size);
        ranks.run([&](Ranks::Rank& rank) {
            for (int step = 0; step < steps; ++step) {
                std::vector<std::int64_t> splits;
                std::vector<float> values;
                for (int other = 0; other < size; ++other) {
                    splits.push_back(rank.rank() + other + step);
                    for (int row = 0; row < splits.back(); ++row)
                        values.push_back(static_cast<float>(rank.rank() * 100 + other * 10 + row));
                }
                Floats tensor("tokens", values);
                tensor.operation.kind = MPIB_ALLTOALL;
                (void)tensor.made();
                tensor.operation.recv = nullptr;
                tensor.operation.splits = splits.data();
                const auto handle = submit(rank.engine(), tensor.operation);
                const auto done = rank.engine().wait(handle, 0);
                ASSERT_TRUE(done) << done.error().text;
                const auto result = rank.engine().result(handle);
                ASSERT_TRUE(result);
                const auto* data = static_cast<const float*>(result->data);
                for (int other = 0; other < size; ++other) {
                    ASSERT_EQ(result->received_rows[other], rank.rank() + other + step);
                    for (int row = 0; row < rank.rank() + other + step; ++row)
                        ASSERT_EQ(*data++,
                                  static_cast<float>(other * 100 + rank.rank() * 10 + row));
                }
                ASSERT_TRUE(rank.engine().release(handle));
            }
        });
        EXPECT_EQ(ranks.at(0).counters().plans_made, 1U);
        EXPECT_GT(ranks.at(0).counters().planned_buckets, 0U);
    }
}

TEST(EngineKinds, BarrierEndsForNobodyBeforeAllHaveCome) {
    for (const int size : sizes) {
        Ranks ranks(size);
        std::atomic<int> arrived{0};
        ranks.run([&](Ranks::Rank& rank) {
            for (int step = 0; step < steps; ++step) {
                ++arrived;
                mpib_operation operation{};
                operation.struct_bytes = sizeof operation;
                operation.kind = MPIB_BARRIER;
                operation.name = "barrier";
                const auto done = rank.engine().call(operation);
                ASSERT_TRUE(done) << done.error().text;
                ASSERT_GE(arrived, size * (step + 1));
            }
        });
        EXPECT_EQ(ranks.at(0).counters().operations[MPIB_BARRIER], steps);
    }
}

// Every datatype, with the largest value, so that an element at the wrong place would be seen.
TEST(EngineKinds, MaximumWorksForEveryDatatype) {
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        for (int step = 0; step < steps; ++step) {
            for (int datatype = MPIB_UINT8; datatype <= MPIB_FLOAT64; ++datatype) {
                const auto type = static_cast<mpib_datatype>(datatype);
                const std::size_t bytes = 6 * mpi_bridge::datatype_bytes(type);
                const auto larger = std::byte{0x11};
                std::vector<std::byte> send(bytes, rank.rank() == 1 ? larger : std::byte{0});
                std::vector<std::byte> recv(bytes);
                const std::string name = "max/" + std::to_string(datatype);
                const std::int64_t shape[] = {2, 3};
                mpib_operation operation{};
                operation.struct_bytes = sizeof operation;
                operation.name = name.c_str();
                operation.send = send.data();
                operation.recv = recv.data();
                operation.shape = shape;
                operation.dimensions = 2;
                operation.datatype = type;
                operation.op = MPIB_MAX;
                const auto done = rank.engine().call(operation);
                ASSERT_TRUE(done) << done.error().text;
                ASSERT_EQ(recv, std::vector<std::byte>(bytes, larger));
            }
        }
    });
}

TEST(EngineKinds, AGroupRunsOnlyOnceAllOfItIsSubmitted) {
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        for (int step = 0; step < steps; ++step) {
            Floats first("group/a", {1, 2});
            Floats second("group/b", {3});
            Floats apart("apart", {4});
            for (Floats* tensor : {&first, &second}) {
                (void)tensor->made();
                tensor->operation.group = "pair";
                tensor->operation.group_size = 2;
            }
            second.operation.op = MPIB_MAX;
            const auto first_handle = submit(rank.engine(), first.operation);
            ASSERT_TRUE(rank.engine().call(apart.made()));
            // On all ranks, and still not done.
            ASSERT_EQ(rank.engine().poll(first_handle), false);
            const auto second_handle = submit(rank.engine(), second.operation);
            const auto done = finish(rank.engine(), first_handle);
            ASSERT_TRUE(done) << done.error().text;
            ASSERT_TRUE(finish(rank.engine(), second_handle));
            ASSERT_EQ(first.recv, (std::vector<float>{2, 4}));
            ASSERT_EQ(second.recv, (std::vector<float>{3}));
        }
    });
}

}  // namespace
