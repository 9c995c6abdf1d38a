// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/device_executor.hpp"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/mpi_bridge/engine/ranks.hpp"

namespace {

using namespace mpi_bridge_test;
using mpi_bridge::DeviceExecutor;
using mpi_bridge::DeviceNote;
using mpi_bridge::DeviceReduction;
using mpi_bridge::DeviceStart;
using mpi_bridge::DeviceStream;
using mpi_bridge::DeviceTicket;
using mpi_bridge::Done;
using mpi_bridge::Failure;
using mpi_bridge::Memory;
using mpi_bridge::Outcome;
using mpi_bridge::TotalOrder;

Outcome<TotalOrder::Time> alone(TotalOrder::Time own) {
    return own;
}

Done fine() {
    return {};
}

// The allreduces in which the members of process sets find the largest number.
class Exchanges {
  public:
    TotalOrder::Time largest(int set, int number, std::size_t members, TotalOrder::Time own) {
        std::unique_lock lock(mutex_);
        Exchange& exchange = exchanges_[{set, number}];
        exchange.largest = std::max(exchange.largest, own);
        ++exchange.heard;
        changed_.notify_all();
        changed_.wait(lock, [&] { return exchange.heard == members; });
        return exchange.largest;
    }

  private:
    struct Exchange {
        std::size_t heard = 0;
        TotalOrder::Time largest = 0;
    };
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::pair<int, int>, Exchange> exchanges_;
};

TEST(DeviceExecutor, GivesTurnsInOneOrderOnAllRanks) {
    constexpr int operations = 200;
    const std::vector<std::vector<int>> sets = {{0, 1, 2}, {0, 1}, {1, 2}, {0, 2}};
    std::vector<DeviceExecutor> executors(3);
    std::vector<std::vector<std::pair<int, int>>> taken(3);  // guarded by the turn
    Exchanges exchanges;
    std::vector<std::thread> threads;
    for (int set = 0; set < 4; ++set) {
        for (const int rank : sets[static_cast<std::size_t>(set)]) {
            DeviceExecutor& executor = executors[static_cast<std::size_t>(rank)];
            auto& order = taken[static_cast<std::size_t>(rank)];
            executor.expect_several_sets();
            threads.emplace_back([&, set] {
                const std::size_t members = sets[static_cast<std::size_t>(set)].size();
                for (int number = 0; number < operations; ++number) {
                    const auto turn = executor.take_turn(
                        set,
                        [&](TotalOrder::Time own) {
                            return exchanges.largest(set, number, members, own);
                        },
                        fine);
                    ASSERT_TRUE(turn) << turn.error().text;
                    order.emplace_back(set, number);
                }
            });
        }
    }
    for (auto& thread : threads)
        thread.join();
    // What two ranks have in common came in the same order.
    const auto common = [&](int rank, int other) {
        std::vector<std::pair<int, int>> out;
        for (const auto& operation : taken[static_cast<std::size_t>(rank)]) {
            const auto& ranks = sets[static_cast<std::size_t>(operation.first)];
            if (std::find(ranks.begin(), ranks.end(), other) != ranks.end())
                out.push_back(operation);
        }
        return out;
    };
    for (const auto& [one, other] : {std::pair(0, 1), std::pair(1, 2), std::pair(0, 2)}) {
        EXPECT_EQ(common(one, other).size(), 2U * operations);
        EXPECT_EQ(common(one, other), common(other, one));
    }
}

TEST(DeviceExecutor, SendsNoMessageWhileTheWorldIsTheOnlyProcessSet) {
    DeviceExecutor executor;
    int messages = 0;
    const auto largest = [&](TotalOrder::Time own) {
        ++messages;
        return Outcome<TotalOrder::Time>(own);
    };
    EXPECT_TRUE(executor.take_turn(MPIB_WORLD, largest, fine));
    EXPECT_EQ(messages, 0);
    executor.expect_several_sets();
    EXPECT_TRUE(executor.take_turn(MPIB_WORLD, largest, fine));
    EXPECT_TRUE(executor.take_turn(1, largest, fine));
    EXPECT_EQ(messages, 2);
}

TEST(DeviceExecutor, AFailureEndsTheWaitForATurn) {
    DeviceExecutor executor;
    const auto first = executor.take_turn(1, alone, fine);
    ASSERT_TRUE(first);
    std::thread second([&] {
        const auto turn = executor.take_turn(2, alone, fine);
        ASSERT_FALSE(turn);
        EXPECT_EQ(turn.error().text, "rank 3 is lost");
    });
    executor.abandon({MPIB_ERROR_PEER_LOST, "rank 3 is lost"});
    second.join();
    executor.abandon({MPIB_ERROR_INTERNAL, "a later failure"});
    const auto late = executor.take_turn(3, alone, fine);
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().text, "rank 3 is lost");
}

TEST(DeviceExecutor, AFailedExchangeLeavesNoTurnBehind) {
    DeviceExecutor executor;
    const auto failed = executor.take_turn(
        1,
        [](TotalOrder::Time) -> Outcome<TotalOrder::Time> {
            return mpi_bridge::fail(MPIB_ERROR_TIMEOUT, "too late");
        },
        fine);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().text, "too late");
    EXPECT_TRUE(executor.take_turn(2, alone, fine));
}

// What the set has in flight may be what everything before its next operation waits for.
TEST(DeviceExecutor, WatchesTheWorkInFlightWhileItWaits) {
    DeviceExecutor executor;
    const auto first = executor.take_turn(1, alone, fine);
    ASSERT_TRUE(first);
    int looks = 0;
    const auto second = executor.take_turn(2, alone, [&]() -> Done {
        if (++looks < 3) return {};
        return mpi_bridge::fail(MPIB_ERROR_INTERNAL, "the device has failed");
    });
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().text, "the device has failed");
}

// Says which streams an operation would wait for. Nothing runs in it.
class NotingGroup final : public mpi_bridge::DeviceGroup {
  public:
    explicit NotingGroup(std::optional<DeviceStream> stream) : stream_(stream) {}

    std::vector<void*> noted;

    [[nodiscard]] std::string describe() const override { return "notes only"; }
    [[nodiscard]] mpi_bridge::DevicePath path() const override {
        return mpi_bridge::DevicePath::nccl;
    }
    [[nodiscard]] std::optional<DeviceStream> stream() const override { return stream_; }
    [[nodiscard]] Outcome<DeviceNote> note(DeviceStream stream) override {
        noted.push_back(stream.handle);
        return DeviceNote();
    }
    [[nodiscard]] Outcome<Memory> result_memory(std::size_t /*bytes*/,
                                                DeviceStream /*stream*/) override {
        return unused();
    }
    [[nodiscard]] Outcome<Memory> copy_of(std::span<const std::byte> /*content*/) override {
        return unused();
    }
    [[nodiscard]] Outcome<DeviceTicket> allreduce(std::span<const mpi_bridge::DevicePart> /*parts*/,
                                                  const DeviceReduction& /*reduction*/,
                                                  const DeviceStart& /*start*/) override {
        return unused();
    }
    [[nodiscard]] Outcome<DeviceTicket> reduce_scatter(const void* /*send*/, void* /*recv*/,
                                                       std::span<const std::size_t> /*counts*/,
                                                       const DeviceReduction& /*reduction*/,
                                                       const DeviceStart& /*start*/) override {
        return unused();
    }
    [[nodiscard]] Outcome<DeviceTicket> broadcast(std::span<const mpi_bridge::DevicePart> /*parts*/,
                                                  int /*root*/,
                                                  const DeviceStart& /*start*/) override {
        return unused();
    }
    [[nodiscard]] Outcome<DeviceTicket> allgather(const void* /*send*/, void* /*recv*/,
                                                  std::span<const std::size_t> /*lengths*/,
                                                  const DeviceStart& /*start*/) override {
        return unused();
    }
    [[nodiscard]] Outcome<DeviceTicket> alltoall(const void* /*send*/,
                                                 std::span<const std::size_t> /*send_lengths*/,
                                                 void* /*recv*/,
                                                 std::span<const std::size_t> /*recv_lengths*/,
                                                 const DeviceStart& /*start*/) override {
        return unused();
    }
    [[nodiscard]] Outcome<bool> poll(const DeviceTicket& /*ticket*/) override { return unused(); }
    [[nodiscard]] Done make_stream_wait(const DeviceTicket& /*ticket*/, DeviceStream /*stream*/,
                                        mpi_bridge::Seconds /*longest*/) override {
        return unused();
    }
    [[nodiscard]] Done close(mpi_bridge::Deadline /*deadline*/) override { return {}; }
    void abandon(const Failure& /*cause*/) override {}

  private:
    static tl::unexpected<Failure> unused() {
        return mpi_bridge::fail(MPIB_ERROR_INTERNAL, "this group only notes streams");
    }

    std::optional<DeviceStream> stream_;
};

TEST(DeviceExecutor, AnOperationWaitsForThatOfAnotherGroupOnTheSameDevice) {
    int streams[3] = {};
    NotingGroup first(DeviceStream{&streams[0]});
    NotingGroup second(DeviceStream{&streams[1]});
    NotingGroup elsewhere(DeviceStream{&streams[2]});
    NotingGroup staged(std::nullopt);
    DeviceExecutor executor;
    std::vector<DeviceNote> notes;
    const auto follow = [&](NotingGroup& group, int device) {
        const auto done = executor.follow_others(group, device, notes);
        ASSERT_TRUE(done) << done.error().text;
    };
    const auto enqueue = [&](NotingGroup& group, int device) {
        follow(group, device);
        executor.enqueued(group, device);
    };
    enqueue(first, 0);
    enqueue(first, 0);
    enqueue(elsewhere, 1);
    EXPECT_TRUE(first.noted.empty());
    EXPECT_TRUE(elsewhere.noted.empty());
    // A refused operation enqueues nothing, so the next one still follows the first group.
    follow(second, 0);
    enqueue(second, 0);
    EXPECT_EQ(second.noted, (std::vector<void*>{&streams[0], &streams[0]}));
    // No operation of a staged group waits on the device, so none follows it.
    enqueue(staged, 0);
    EXPECT_EQ(staged.noted, std::vector<void*>{&streams[1]});
    enqueue(second, 0);
    EXPECT_EQ(second.noted.size(), 2U);
    enqueue(first, 0);
    EXPECT_EQ(first.noted, std::vector<void*>{&streams[1]});
    EXPECT_EQ(notes.size(), 4U);
}

}  // namespace
