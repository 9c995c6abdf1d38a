// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <memory>
#include <random>

#include "engine/handle.hpp"
#include "tests/unit/mpi_bridge/engine/ranks.hpp"

namespace {

using namespace mpi_bridge_test;

// What rank `rank` contributes to element `at` in step `step`; sums stay exact in floats.
float value(int rank, int step, int tensor, std::size_t at) {
    return static_cast<float>(rank * 7 + step % 50 + tensor * 3 + static_cast<int>(at % 11));
}

float sum_of_values(int size, int step, int tensor, std::size_t at) {
    float sum = 0;
    for (int rank = 0; rank < size; ++rank)
        sum += value(rank, step, tensor, at);
    return sum;
}

struct Tensors {
    explicit Tensors(const std::vector<std::size_t>& lengths) {
        for (std::size_t tensor = 0; tensor < lengths.size(); ++tensor)
            all.push_back(std::make_unique<Floats>("grad/" + std::to_string(tensor),
                                                   std::vector<float>(lengths[tensor])));
    }
    void fill(int rank, int step) {
        for (std::size_t tensor = 0; tensor < all.size(); ++tensor) {
            auto& send = all[tensor]->send;
            for (std::size_t at = 0; at < send.size(); ++at)
                send[at] = value(rank, step, static_cast<int>(tensor), at);
            std::fill(all[tensor]->recv.begin(), all[tensor]->recv.end(), -1.0F);
        }
    }
    void expect_sums(int size, int step) {
        for (std::size_t tensor = 0; tensor < all.size(); ++tensor) {
            const auto& recv = all[tensor]->recv;
            for (std::size_t at = 0; at < recv.size(); ++at) {
                ASSERT_EQ(recv[at], sum_of_values(size, step, static_cast<int>(tensor), at))
                    << "step " << step << ", tensor " << tensor << ", element " << at;
            }
        }
    }
    std::vector<std::unique_ptr<Floats>> all;
};

const std::vector<std::size_t> lengths = {3, 1, 1000, 7, 20000, 1, 0, 5, 64, 128};

TEST(EngineAllreduce, SumsWhatTheRanksSubmitUnderOneName) {
    for (const int size : {1, 2, 3, 5}) {
        Ranks ranks(size);
        ranks.run([&](Ranks::Rank& rank) {
            Tensors tensors(lengths);
            tensors.fill(rank.rank(), 0);
            std::vector<mpib_handle> handles;
            for (auto& tensor : tensors.all)
                handles.push_back(submit(rank.engine(), tensor->made()));
            for (const mpib_handle handle : handles) {
                const auto done = finish(rank.engine(), handle);
                ASSERT_TRUE(done) << done.error().text;
            }
            tensors.expect_sums(size, 0);
        });
    }
}

TEST(EngineAllreduce, AdoptsAPlanWhenStepsRepeat) {
    constexpr int steps = 12;
    for (const int size : {1, 2, 3, 4}) {
        Ranks ranks(size);
        ranks.run([&](Ranks::Rank& rank) {
            Tensors tensors(lengths);
            for (int step = 0; step < steps; ++step) {
                tensors.fill(rank.rank(), step);
                std::vector<mpib_handle> handles;
                for (auto& tensor : tensors.all)
                    handles.push_back(submit(rank.engine(), tensor->made()));
                for (const mpib_handle handle : handles) {
                    const auto done = finish(rank.engine(), handle);
                    ASSERT_TRUE(done) << done.error().text;
                }
                tensors.expect_sums(size, step);
            }
        });
        for (int rank = 0; rank < size; ++rank) {
            const auto counters = ranks.at(rank).counters();
            EXPECT_EQ(counters.plans_made, 1U);
            EXPECT_EQ(counters.plans_broken, 0U);
            EXPECT_GE(counters.planned_buckets, 8U);
            EXPECT_LE(counters.planned_buckets, 10U * 10U);
            EXPECT_EQ(counters.operations[MPIB_ALLREDUCE], steps * lengths.size());
        }
    }
}

TEST(EngineAllreduce, IsRightWhenThreadsOfEachRankSubmitInTheirOwnOrder) {
    constexpr int steps = 40;
    constexpr int size = 3;
    constexpr int threads_of_rank = 3;
    Ranks ranks(size);
    ranks.run([&](Ranks::Rank& rank) {
        Tensors tensors(lengths);
        for (int step = 0; step < steps; ++step) {
            tensors.fill(rank.rank(), step);
            std::vector<mpib_handle> handles(lengths.size());
            std::vector<std::thread> threads;
            threads.reserve(threads_of_rank);
            for (int thread = 0; thread < threads_of_rank; ++thread) {
                threads.emplace_back([&, thread] {
                    std::mt19937 random(
                        static_cast<unsigned>(step * 100 + rank.rank() * 10 + thread));
                    std::vector<std::size_t> mine;
                    for (std::size_t at = static_cast<std::size_t>(thread); at < lengths.size();
                         at += threads_of_rank)
                        mine.push_back(at);
                    std::shuffle(mine.begin(), mine.end(), random);
                    for (const std::size_t at : mine) {
                        if (random() % 4 == 0)
                            std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
                        handles[at] = submit(rank.engine(), tensors.all[at]->made());
                    }
                });
            }
            for (auto& thread : threads)
                thread.join();
            std::mt19937 random(static_cast<unsigned>(step * 10 + rank.rank()));
            std::shuffle(handles.begin(), handles.end(), random);
            for (const mpib_handle handle : handles) {
                const auto done = finish(rank.engine(), handle);
                ASSERT_TRUE(done) << done.error().text;
            }
            tensors.expect_sums(size, step);
        }
    });
    EXPECT_GE(ranks.at(0).counters().plans_made, 1U);
}

// Each rank waits for every operation before it submits the next.
TEST(EngineAllreduce, RunsOneAfterTheOtherOnTheCallersThread) {
    constexpr int steps = 30;
    constexpr int size = 2;
    Ranks ranks(size);
    ranks.run([&](Ranks::Rank& rank) {
        Tensors tensors({1, 2, 3});
        for (int step = 0; step < steps; ++step) {
            tensors.fill(rank.rank(), step);
            for (auto& tensor : tensors.all) {
                const auto done = rank.engine().call(tensor->made());
                ASSERT_TRUE(done) << done.error().text;
            }
            tensors.expect_sums(size, step);
        }
    });
    for (int rank = 0; rank < size; ++rank) {
        const auto counters = ranks.at(rank).counters();
        EXPECT_EQ(counters.plans_broken, 0U);
        EXPECT_GE(counters.planned_buckets, 3U * (steps - 3));
    }
}

TEST(EngineAllreduce, SharesBucketsAmongSmallTensors) {
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        Tensors tensors(std::vector<std::size_t>(50, 4));
        for (int step = 0; step < 6; ++step) {
            tensors.fill(rank.rank(), step);
            std::vector<mpib_handle> handles;
            for (auto& tensor : tensors.all)
                handles.push_back(submit(rank.engine(), tensor->made()));
            for (const mpib_handle handle : handles)
                ASSERT_TRUE(finish(rank.engine(), handle));
            tensors.expect_sums(2, step);
        }
    });
    const auto counters = ranks.at(0).counters();
    EXPECT_EQ(counters.operations[MPIB_ALLREDUCE], 300U);
    EXPECT_LT(counters.collectives[MPIB_ALLREDUCE], 150U);
    EXPECT_GE(counters.planned_buckets, 3U);
}

TEST(EngineAllreduce, ScalesBeforeAndAfter) {
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        for (int step = 0; step < 5; ++step) {
            Floats tensor("scaled", {1, 2, 3});
            tensor.operation.prescale = 0.5;
            tensor.operation.postscale = 4;
            const auto done = rank.engine().call(tensor.made());
            ASSERT_TRUE(done) << done.error().text;
            EXPECT_EQ(tensor.recv, (std::vector<float>{4, 8, 12}));
            EXPECT_EQ(tensor.send, (std::vector<float>{1, 2, 3}));
        }
    });
}

TEST(EngineAllreduce, ReducesAdjacentTensorsWhereTheyAre) {
    constexpr std::size_t count = 40000;
    constexpr int tensors = 4;
    Ranks ranks(3);
    ranks.run([&](Ranks::Rank& rank) {
        std::vector<float> memory(count * tensors);
        for (int step = 0; step < 5; ++step) {
            std::fill(memory.begin(), memory.end(), static_cast<float>(rank.rank() + step));
            std::vector<mpib_handle> handles;
            for (int tensor = 0; tensor < tensors; ++tensor) {
                Floats floats("view/" + std::to_string(tensor), std::vector<float>(count));
                (void)floats.made();
                floats.operation.send = memory.data() + static_cast<std::size_t>(tensor) * count;
                floats.operation.recv = memory.data() + static_cast<std::size_t>(tensor) * count;
                handles.push_back(submit(rank.engine(), floats.operation));
            }
            for (const mpib_handle handle : handles)
                ASSERT_TRUE(finish(rank.engine(), handle));
            for (const float each : memory)
                ASSERT_EQ(each, static_cast<float>(3 + 3 * step));
        }
    });
    // Nothing was packed once the tensors shared a bucket of the plan.
    EXPECT_EQ(ranks.at(0).counters().plans_made, 1U);
}

TEST(EngineAllreduce, ForgetsNamesThatAreUsedOnce) {
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        for (int step = 0; step < 6000; ++step) {
            Floats tensor("", {1});
            (void)tensor.made();
            tensor.operation.name = nullptr;
            const auto done = rank.engine().call(tensor.operation);
            ASSERT_TRUE(done) << done.error().text;
            ASSERT_EQ(tensor.recv[0], 2);
        }
    });
    EXPECT_EQ(ranks.at(0).counters().plans_made, 0U);
}

// Breaks when a handle of long ago comes to name a later operation.
TEST(EngineHandles, StayUnknownOnceReleasedHoweverOftenTheNameIsUsed) {
    Wishes wishes;
    wishes.first_generation = mpi_bridge::Handle::generations - 3;
    Ranks ranks(2, wishes);
    ranks.run([&](Ranks::Rank& rank) {
        // By request: as long as the generations of each grow, no handle comes twice.
        std::map<std::uint32_t, std::uint32_t> latest;
        std::vector<mpib_handle> released;
        for (int step = 0; step < 20; ++step) {
            Floats tensor("x", {1, 1});
            const auto handle = submit(rank.engine(), tensor.made());
            const auto parts = mpi_bridge::Handle::unpack(handle).value();
            const auto [latest_of, is_new] = latest.emplace(parts.index, parts.generation);
            EXPECT_TRUE(is_new || parts.generation > latest_of->second) << "step " << step;
            latest_of->second = parts.generation;
            for (const mpib_handle each : released)
                EXPECT_FALSE(rank.engine().poll(each).has_value());
            ASSERT_TRUE(finish(rank.engine(), handle));
            EXPECT_EQ(tensor.recv[1], 2);
            released.push_back(handle);
        }
        EXPECT_GT(latest.size(), 1U);
        EXPECT_GT(rank.counters().planned_buckets, 0U);
    });
}

}  // namespace
