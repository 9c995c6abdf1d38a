// SPDX-License-Identifier: Apache-2.0
//
// Operations with MPIB_DEVICE among ranks whose tensors are in host memory: all of the engine's
// part, and the host-staged path. What only a device can show is in tests/gpu.
#include <algorithm>
#include <array>
#include <cstring>

#include "tests/unit/mpi_bridge/engine/ranks.hpp"

namespace {

using namespace mpi_bridge_test;
using mpi_bridge::DevicePath;
using mpi_bridge::Seconds;

constexpr std::size_t large = 300000;  // longer than a small item

Wishes staged(DevicePath path = DevicePath::automatic) {
    Wishes wishes;
    wishes.settings.device_path = path;
    return wishes;
}

struct OnDevice : Floats {
    OnDevice(const std::string& its_name, std::vector<float> values)
        : Floats(its_name, std::move(values)) {
        operation.flags = MPIB_DEVICE;
    }
};

std::vector<float> filled(std::size_t count, float value) {
    return std::vector<float>(count, value);
}

void expect_sum(Ranks::Rank& rank, OnDevice& tensor, float expected) {
    const auto done = rank.engine().call(tensor.made());
    ASSERT_TRUE(done) << done.error().text;
    ASSERT_EQ(tensor.recv, filled(tensor.recv.size(), expected));
}

TEST(EngineDevice, ReducesWhatIsNegotiatedAndWhatIsPlanned) {
    for (const int size : {1, 2, 3}) {
        Ranks ranks(size);
        ranks.run([&](Ranks::Rank& rank) {
            for (int step = 0; step < 8; ++step) {
                std::vector<std::unique_ptr<OnDevice>> tensors;
                std::vector<mpib_handle> handles;
                for (const std::size_t count :
                     {std::size_t{3}, std::size_t{0}, std::size_t{500}, large, std::size_t{1}}) {
                    tensors.push_back(std::make_unique<OnDevice>(
                        "gradient/" + std::to_string(tensors.size()),
                        filled(count, static_cast<float>(rank.rank() + step))));
                    tensors.back()->operation.prescale = 2;
                    handles.push_back(submit(rank.engine(), tensors.back()->made()));
                }
                const int sum = size * (size - 1) / 2 + size * step;
                for (std::size_t at = 0; at < handles.size(); ++at) {
                    const auto done = finish(rank.engine(), handles[at]);
                    ASSERT_TRUE(done) << done.error().text;
                    const auto& tensor = *tensors[at];
                    ASSERT_EQ(tensor.recv, filled(tensor.recv.size(), static_cast<float>(2 * sum)));
                }
            }
        });
        const auto counters = ranks.at(0).counters();
        EXPECT_EQ(counters.plans_made, 1U);
        EXPECT_GT(counters.planned_buckets, 0U);
        EXPECT_EQ(counters.operations[MPIB_ALLREDUCE], 8U * 5);
        // The tensors share buckets.
        EXPECT_LT(counters.collectives[MPIB_ALLREDUCE], 8U * 5);
    }
}

// Each step has planned ones, and one without a name, which is never planned; the ranks submit them
// in other orders. All go through one group, so its order must be the same on all ranks.
TEST(EngineDevice, KeepsOneOrderBetweenThePlanAndWhatIsBesideIt) {
    constexpr int size = 3;
    Ranks ranks(size);
    ranks.run([&](Ranks::Rank& rank) {
        for (int step = 0; step < 60; ++step) {
            OnDevice first("first", filled(large, 1));
            OnDevice second("second", filled(7, 2));
            OnDevice gathered(
                "gathered",
                filled(static_cast<std::size_t>(rank.rank()) + static_cast<std::size_t>(step), 5));
            gathered.operation.kind = MPIB_ALLGATHER;
            (void)gathered.made();
            gathered.operation.recv = nullptr;
            gathered.operation.name = nullptr;
            std::array<const mpib_operation*, 3> order{&first.made(), &second.made(),
                                                       &gathered.operation};
            std::rotate(order.begin(), order.begin() + (rank.rank() + step) % 3, order.end());
            std::array<mpib_handle, 3> handles{};
            for (std::size_t at = 0; at < 3; ++at)
                handles[at] = submit(rank.engine(), *order[at]);
            for (std::size_t at = 0; at < 3; ++at) {
                const auto done = rank.engine().wait(handles[at], 0);
                ASSERT_TRUE(done) << done.error().text;
                if (order[at] != &gathered.operation) continue;
                const auto result = rank.engine().result(handles[at]);
                ASSERT_TRUE(result);
                ASSERT_EQ(result->rows, 3 + 3 * step);
                const auto* values = static_cast<const float*>(result->data);
                ASSERT_EQ(std::vector<float>(values, values + result->rows),
                          filled(static_cast<std::size_t>(result->rows), 5));
            }
            for (const mpib_handle handle : handles)
                ASSERT_TRUE(rank.engine().release(handle));
            ASSERT_EQ(first.recv, filled(large, 3));
            ASSERT_EQ(second.recv, filled(7, 6));
        }
    });
    EXPECT_GT(ranks.at(0).counters().planned_buckets, 0U);
}

TEST(EngineDevice, BroadcastsFromEveryRoot) {
    Ranks ranks(3);
    ranks.run([&](Ranks::Rank& rank) {
        for (int step = 0; step < 6; ++step) {
            for (int root = 0; root < 3; ++root) {
                const auto own = static_cast<float>(100 * rank.rank() + step);
                OnDevice tensor("weights/" + std::to_string(root), filled(9, own));
                tensor.operation.kind = MPIB_BROADCAST;
                tensor.operation.root = root;
                (void)tensor.made();
                if (rank.rank() != root) tensor.operation.send = nullptr;
                const auto done = rank.engine().call(tensor.operation);
                ASSERT_TRUE(done) << done.error().text;
                ASSERT_EQ(tensor.recv, filled(9, static_cast<float>(100 * root + step)));
            }
        }
    });
}

TEST(EngineDevice, ScattersSumsIntoItsOwnMemory) {
    Ranks ranks(3);
    ranks.run([&](Ranks::Rank& rank) {
        for (int step = 0; step < 6; ++step) {
            OnDevice tensor("scattered", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
            tensor.shape = {5, 2};
            tensor.operation.kind = MPIB_REDUCE_SCATTER;
            (void)tensor.made();
            tensor.operation.recv = nullptr;
            const auto handle = submit(rank.engine(), tensor.operation);
            const auto done = rank.engine().wait(handle, 0);
            ASSERT_TRUE(done) << done.error().text;
            const auto result = rank.engine().result(handle);
            ASSERT_TRUE(result);
            ASSERT_EQ(result->rows, rank.rank() < 2 ? 2 : 1);
            const auto* values = static_cast<const float*>(result->data);
            for (int at = 0; at < 2 * result->rows; ++at)
                ASSERT_EQ(values[at], static_cast<float>(3 * (4 * rank.rank() + at)));
            ASSERT_TRUE(rank.engine().release(handle));
        }
    });
}

TEST(EngineDevice, ExchangesUnevenParts) {
    constexpr int size = 3;
    Ranks ranks(size);
    ranks.run([&](Ranks::Rank& rank) {
        for (int step = 0; step < 4; ++step) {
            // Rank s sends s + r rows, of two elements, to rank r.
            std::vector<std::int64_t> splits;
            std::vector<float> values;
            for (int to = 0; to < size; ++to) {
                splits.push_back(rank.rank() + to);
                values.insert(
                    values.end(),
                    2 * (static_cast<std::size_t>(rank.rank()) + static_cast<std::size_t>(to)),
                    static_cast<float>(10 * rank.rank() + to));
            }
            const auto rows = static_cast<std::int64_t>(values.size() / 2);
            OnDevice tensor("exchanged", std::move(values));
            tensor.shape = {rows, 2};
            tensor.operation.kind = MPIB_ALLTOALL;
            (void)tensor.made();
            tensor.operation.splits = splits.data();
            tensor.operation.recv = nullptr;
            const auto handle = submit(rank.engine(), tensor.operation);
            const auto done = rank.engine().wait(handle, 0);
            ASSERT_TRUE(done) << done.error().text;
            const auto result = rank.engine().result(handle);
            ASSERT_TRUE(result);
            const auto* at = static_cast<const float*>(result->data);
            for (int from = 0; from < size; ++from) {
                ASSERT_EQ(result->received_rows[from], from + rank.rank());
                for (int element = 0; element < 2 * (from + rank.rank()); ++element)
                    ASSERT_EQ(*at++, static_cast<float>(10 * from + rank.rank()));
            }
            ASSERT_TRUE(rank.engine().release(handle));
        }
    });
}

TEST(EngineDevice, RunsGroupsTogetherAndHostMemoryBeside) {
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        for (int step = 0; step < 8; ++step) {
            std::vector<std::unique_ptr<Floats>> tensors;
            std::vector<mpib_handle> handles;
            for (int at = 0; at < 4; ++at) {
                tensors.push_back(
                    std::make_unique<Floats>("member/" + std::to_string(at), filled(5, 1)));
                tensors.back()->operation.flags = at < 3 ? MPIB_DEVICE : 0;
                tensors.back()->operation.group = "all of them";
                tensors.back()->operation.group_size = 4;
                handles.push_back(submit(rank.engine(), tensors.back()->made()));
            }
            for (std::size_t at = 0; at < 4; ++at) {
                const auto done = finish(rank.engine(), handles[at]);
                ASSERT_TRUE(done) << done.error().text;
                ASSERT_EQ(tensors[at]->recv, filled(5, 2));
            }
        }
    });
    EXPECT_EQ(ranks.at(0).counters().plans_made, 1U);
}

TEST(EngineDevice, PollsUntilTheResultIsThere) {
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        for (int step = 0; step < 6; ++step) {
            OnDevice tensor("x", filled(large, 1));
            const auto handle = submit(rank.engine(), tensor.made());
            while (!rank.engine().poll(handle).value_or(true))
                std::this_thread::yield();
            ASSERT_EQ(tensor.recv, filled(large, 2));
            ASSERT_TRUE(finish(rank.engine(), handle));
        }
    });
}

TEST(EngineDevice, IsADisagreementWhereOneRankMeansHostMemory) {
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        OnDevice tensor("x", filled(4, 1));
        if (rank.rank() == 1) tensor.operation.flags = 0;
        const auto done = rank.engine().call(tensor.made());
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().status, MPIB_ERROR_MISMATCH);
        EXPECT_NE(done.error().text.find("kind of memory: MPIB_DEVICE on rank 0, host on rank 1"),
                  std::string::npos)
            << done.error().text;
        OnDevice right("x", filled(4, 1));
        expect_sum(rank, right, 2);
    });
}

TEST(EngineDevice, LetsJoinedRanksTakePartWithNeutralElements) {
    constexpr int size = 3;
    Ranks ranks(size);
    ranks.run([&](Ranks::Rank& rank) {
        for (int epoch = 0; epoch < 2; ++epoch) {
            for (int step = 0; step < 3 * (rank.rank() + 1); ++step) {
                const int present = size - step / 3;
                OnDevice sum("sum", filled(large, 1));
                expect_sum(rank, sum, static_cast<float>(present));
                OnDevice product("product", filled(11, 1));
                product.operation.op = MPIB_PRODUCT;
                product.operation.prescale = 2;
                expect_sum(rank, product, static_cast<float>(1 << present));
                OnDevice least("least", filled(5, static_cast<float>(rank.rank() + 1)));
                least.operation.op = MPIB_MIN;
                expect_sum(rank, least, static_cast<float>(size - present + 1));
            }
            const auto joined = rank.engine().join();
            ASSERT_TRUE(joined) << joined.error().text;
            EXPECT_EQ(*joined, size - 1);
        }
    });
}

TEST(EngineDevice, AWayThatCannotServeFailsItsOperationsAndNoOther) {
    for (const DevicePath path : {DevicePath::nccl, DevicePath::ucx}) {
        Ranks ranks(2, staged(path));
        ranks.run([&](Ranks::Rank& rank) {
            for (int step = 0; step < 3; ++step) {
                OnDevice tensor("x", filled(4, 1));
                const auto done = rank.engine().call(tensor.made());
                ASSERT_FALSE(done);
                EXPECT_EQ(done.error().status, MPIB_ERROR_INVALID_ARGUMENT) << done.error().text;
                EXPECT_NE(done.error().text.find("process set 0: "), std::string::npos);
                Floats other("y", filled(4, 1));
                const auto fine = rank.engine().call(other.made());
                ASSERT_TRUE(fine) << fine.error().text;
                EXPECT_EQ(other.recv, filled(4, 2));
            }
        });
        EXPECT_TRUE(ranks.at(0).failures().empty());
    }
}

TEST(EngineDevice, ALostPeerFailsWhatIsUnderWay) {
    Ranks ranks(3);
    ranks.run([&](Ranks::Rank& rank) {
        for (int step = 0; step < 6; ++step) {
            OnDevice tensor("x", filled(8, 1));
            expect_sum(rank, tensor, 3);
        }
        if (rank.rank() == 2) {
            rank.transport().abandon();
            return;
        }
        OnDevice tensor("x", filled(8, 1));
        const auto done = rank.engine().call(tensor.made());
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().status, MPIB_ERROR_PEER_LOST) << done.error().text;
        const auto refused = rank.engine().submit(tensor.made());
        ASSERT_FALSE(refused);
    });
}

TEST(EngineDevice, HasAGroupOfItsOwnForEachProcessSet) {
    Ranks ranks(3);
    ranks.run([&](Ranks::Rank& rank) {
        for (int round = 0; round < 2; ++round) {
            const std::vector<int> members = {0, 2};
            const auto set = rank.engine().add_process_set(members);
            ASSERT_TRUE(set) << set.error().text;
            for (int step = 0; step < 6; ++step) {
                OnDevice world("x", filled(20, 1));
                expect_sum(rank, world, 3);
                if (rank.rank() == 1) continue;
                OnDevice two("x", filled(20, 1));
                two.operation.process_set = *set;
                expect_sum(rank, two, 2);
            }
            const auto removed = rank.engine().remove_process_set(*set);
            ASSERT_TRUE(removed) << removed.error().text;
        }
    });
}

// Every rank submits to the world and to its two pairs from a thread each, so that all orders
// occur; what is negotiated comes beside what is planned. A set that is added while the plan of the
// world has operations on device memory begins to take turns with it.
TEST(EngineDevice, OverlappingProcessSetsTakeTurns) {
    constexpr int size = 3;
    Ranks ranks(size);
    ranks.run([&](Ranks::Rank& rank) {
        const auto steps = [&](int set, int members, int count) {
            for (int step = 0; step < count; ++step) {
                OnDevice planned("planned", filled(step % 3 == 0 ? large : 50, 1));
                planned.operation.process_set = set;
                OnDevice gathered("gathered", filled(static_cast<std::size_t>(step % 4), 1));
                gathered.operation.kind = MPIB_ALLGATHER;
                gathered.operation.process_set = set;
                (void)gathered.made();
                gathered.operation.recv = nullptr;
                const auto handle = submit(rank.engine(), gathered.operation);
                expect_sum(rank, planned, static_cast<float>(members));
                const auto done = rank.engine().wait(handle, 0);
                ASSERT_TRUE(done) << done.error().text;
                ASSERT_EQ(rank.engine().result(handle)->rows, members * (step % 4));
                ASSERT_TRUE(rank.engine().release(handle));
            }
        };
        steps(MPIB_WORLD, size, 10);
        std::vector<int> own_sets;
        for (const std::vector<int>& pair :
             {std::vector{0, 1}, std::vector{1, 2}, std::vector{0, 2}}) {
            OnDevice under_way("planned", filled(50, 1));
            const auto handle = submit(rank.engine(), under_way.made());
            const auto set = rank.engine().add_process_set(pair);
            ASSERT_TRUE(set) << set.error().text;
            if (rank.engine().process_set_rank(*set) >= 0) own_sets.push_back(*set);
            ASSERT_TRUE(finish(rank.engine(), handle));
        }
        std::vector<std::thread> threads;
        threads.emplace_back(steps, MPIB_WORLD, size, 40);
        for (const int set : own_sets)
            threads.emplace_back(steps, set, 2, 40);
        for (auto& thread : threads)
            thread.join();
    });
    EXPECT_GT(ranks.at(0).counters().planned_buckets, 0U);
}

TEST(EngineDevice, FinishesWhatIsUnderWayAtShutdown) {
    for (int round = 0; round < 5; ++round) {
        OnDevice tensors[] = {{"x", filled(large, 1)}, {"x", filled(large, 1)}};
        {
            Ranks ranks(2);
            ranks.run([&](Ranks::Rank& rank) {
                OnDevice first("y", filled(1, 1));
                expect_sum(rank, first, 2);
                auto& tensor = tensors[rank.rank()];
                const auto handle = submit(rank.engine(), tensor.made());
                ASSERT_TRUE(rank.engine().wait(handle, 0));
                EXPECT_TRUE(rank.engine().shutdown());
                ASSERT_EQ(tensor.recv, filled(large, 2));
            });
        }
    }
}

}  // namespace
