// SPDX-License-Identifier: Apache-2.0
//
// The host-staged path of ranks whose tensors are in host memory, opened as the engine opens it:
// the same code that serves devices, but for the queue of work.
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "../reference.hpp"
#include "gpu/device_group.hpp"
#include "meeting.hpp"

namespace {

using namespace mpi_bridge;
using namespace mpi_bridge_test;

// Integers and doubles are enough to see what the staged path itself does.
void reduce(std::byte* out, const std::vector<const std::byte*>& inputs, std::size_t first,
            std::size_t count, mpib_datatype datatype, mpib_op op) {
    with_type(datatype, [&](auto type) {
        using T = decltype(type);
        for (std::size_t i = 0; i < count; ++i) {
            const auto load = [&](const std::byte* from) {
                T item;
                std::memcpy(&item, from + (first + i) * sizeof(T), sizeof(T));
                return item;
            };
            long double total = to_real(load(inputs[0]));
            for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
                const long double item = to_real(load(inputs[rank]));
                total = op == MPIB_MAX ? std::max(total, item) : total + item;
            }
            if (op == MPIB_AVERAGE) total /= static_cast<long double>(inputs.size());
            T result;
            if constexpr (is_short_float<T>) {
                result = T::from(static_cast<double>(total));
            } else {
                result = static_cast<T>(total);
            }
            std::memcpy(out + i * sizeof(T), &result, sizeof(T));
        }
    });
}

void finish(DeviceGroup& group, const Outcome<DeviceTicket>& ticket) {
    ASSERT_TRUE(ticket) << ticket.error().text;
    const auto waited = group.make_stream_wait(*ticket, {}, Seconds(20));
    ASSERT_TRUE(waited) << waited.error().text;
    const auto done = group.poll(*ticket);
    ASSERT_TRUE(done) << done.error().text;
    EXPECT_TRUE(*done);
}

using Body = std::function<void(DeviceGroup&, int rank)>;

void as_ranks(int size, const Body& body, DevicePath path = DevicePath::automatic) {
    Meeting meeting(size);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
        threads.emplace_back([&, rank] {
            DeviceGroupOptions options;
            options.name = "test group";
            options.rank = rank;
            options.size = size;
            options.path = path;
            options.host = meeting.collectives(rank, reduce);
            options.patience = Seconds(20);
            options.chunk_bytes = 100;  // rounded up to 112, which divides nothing below
            meeting.connect(options);
            auto group = DeviceGroup::open(options);
            ASSERT_TRUE(group) << group.error().text;
            body(**group, rank);
        });
    }
    for (auto& thread : threads)
        thread.join();
}

std::vector<std::size_t> tensor_sizes() {
    return {1, 0, 100, 7, 28, 29, 1000};
}

TEST(StagedGroup, SaysWhyItIsStaged) {
    as_ranks(2, [](DeviceGroup& group, int) {
        EXPECT_EQ(group.describe(), "host-staged: the tensors of rank 0 are on the host");
    });
}

TEST(StagedGroup, ReducesManyTensorsAsOneBucket) {
    for (const int size : {1, 2, 3}) {
        as_ranks(size, [size](DeviceGroup& group, int rank) {
            std::vector<std::vector<double>> tensors;
            std::vector<std::vector<double>> results;
            std::vector<DevicePart> parts;
            for (const std::size_t count : tensor_sizes()) {
                tensors.push_back(
                    random_values<double>(count, count + static_cast<unsigned>(rank)));
                results.emplace_back(count, -1);
            }
            for (std::size_t i = 0; i < tensors.size(); ++i)
                parts.push_back({tensors[i].data(), results[i].data(), tensors[i].size()});
            finish(group, group.allreduce(parts, {MPIB_FLOAT64, MPIB_SUM, 0.5, 4}, {}));
            for (std::size_t i = 0; i < tensors.size(); ++i) {
                for (std::size_t k = 0; k < tensors[i].size(); ++k) {
                    double sum = 0;
                    for (int peer = 0; peer < size; ++peer) {
                        sum += random_values<double>(
                            tensors[i].size(), tensors[i].size() + static_cast<unsigned>(peer))[k];
                    }
                    ASSERT_NEAR(results[i][k], 2 * sum, 1e-12) << "tensor " << i;
                }
            }
        });
    }
}

TEST(StagedGroup, ReducesOneTensorInPlaceAndManyOperationsInOrder) {
    as_ranks(2, [](DeviceGroup& group, int rank) {
        std::vector<std::int32_t> tensor(777, rank + 1);
        const DevicePart part{tensor.data(), tensor.data(), tensor.size()};
        Outcome<DeviceTicket> last;
        for (int i = 0; i < 20; ++i)
            last = group.allreduce(std::span(&part, 1), {MPIB_INT32, MPIB_SUM, 1, 1}, {});
        finish(group, last);
        // 3 after the first, then doubled by each.
        EXPECT_EQ(tensor, std::vector<std::int32_t>(777, 3 << 19));
        EXPECT_TRUE(group.close(Deadline::in(Seconds(20))));
        EXPECT_FALSE(group.allreduce(std::span(&part, 1), {MPIB_INT32, MPIB_SUM, 1, 1}, {}));
    });
}

TEST(StagedGroup, BroadcastsManyTensors) {
    as_ranks(3, [](DeviceGroup& group, int rank) {
        std::vector<std::vector<std::uint8_t>> tensors;
        std::vector<DevicePart> parts;
        for (const std::size_t count : tensor_sizes())
            tensors.emplace_back(count, static_cast<std::uint8_t>(rank + 1));
        for (auto& tensor : tensors)
            parts.push_back({tensor.data(), tensor.data(), tensor.size()});
        finish(group, group.broadcast(parts, 2, {}));
        for (const auto& tensor : tensors)
            EXPECT_EQ(tensor, std::vector<std::uint8_t>(tensor.size(), 3));
        EXPECT_FALSE(group.broadcast(parts, 3, {}));
    });
}

TEST(StagedGroup, GathersAndExchangesUnevenParts) {
    as_ranks(3, [](DeviceGroup& group, int rank) {
        const auto own = static_cast<std::size_t>(rank);
        const std::size_t lengths[] = {5, 0, 300};
        std::vector<char> send(lengths[own], static_cast<char>('a' + rank));
        std::vector<char> recv(305, '?');
        finish(group, group.allgather(send.data(), recv.data(), lengths, {}));
        EXPECT_EQ(std::string(recv.begin(), recv.end()),
                  std::string(5, 'a') + std::string(300, 'c'));

        // Rank r sends 10 * r + peer bytes to each peer.
        std::vector<std::size_t> out;
        std::vector<std::size_t> in;
        std::string expected;
        for (std::size_t peer = 0; peer < 3; ++peer) {
            out.push_back(10 * own + peer);
            in.push_back(10 * peer + own);
            expected += std::string(in.back(), static_cast<char>('a' + peer));
        }
        send.assign(out[0] + out[1] + out[2], static_cast<char>('a' + rank));
        recv.assign(expected.size(), '?');
        finish(group, group.alltoall(send.data(), out, recv.data(), in, {}));
        EXPECT_EQ(std::string(recv.begin(), recv.end()), expected);
    });
}

TEST(StagedGroup, ScattersSumsUnevenly) {
    as_ranks(3, [](DeviceGroup& group, int rank) {
        const std::size_t counts[] = {3, 100, 0};
        std::vector<float> send(103);
        for (std::size_t i = 0; i < send.size(); ++i)
            send[i] = static_cast<float>(i) + static_cast<float>(rank);
        std::vector<float> recv(counts[rank] + 1, -1);
        finish(group, group.reduce_scatter(send.data(), recv.data(), counts,
                                           {MPIB_FLOAT32, MPIB_SUM, 2, 1}, {}));
        for (std::size_t i = 0; i < counts[rank]; ++i) {
            const auto index = static_cast<float>(rank == 0 ? i : i + 3);
            EXPECT_EQ(recv[i], 2 * (3 * index + 3));
        }
        EXPECT_EQ(recv.back(), -1);
    });
}

TEST(StagedGroup, AFailureOfTheHostFailsEverythingWithItsText) {
    Meeting meeting(1);
    DeviceGroupOptions options;
    options.host = meeting.collectives(0, reduce);
    options.host.allreduce = [](std::byte*, std::size_t, mpib_datatype, mpib_op) -> Done {
        return fail(MPIB_ERROR_PEER_LOST, "rank 7 is gone");
    };
    meeting.connect(options);
    auto group = DeviceGroup::open(options);
    ASSERT_TRUE(group);
    float value = 1;
    const DevicePart part{&value, &value, 1};
    const auto ticket =
        (*group)->allreduce(std::span(&part, 1), {MPIB_FLOAT32, MPIB_SUM, 1, 1}, {});
    ASSERT_TRUE(ticket);
    const auto waited = (*group)->make_stream_wait(*ticket, {}, Seconds(20));
    ASSERT_FALSE(waited);
    EXPECT_EQ(waited.error().text, "rank 7 is gone");
    EXPECT_EQ((*group)->poll(*ticket).error().status, MPIB_ERROR_PEER_LOST);
    EXPECT_FALSE((*group)->allreduce(std::span(&part, 1), {MPIB_FLOAT32, MPIB_SUM, 1, 1}, {}));
}

TEST(StagedGroup, AbortFailsWhatIsNotDone) {
    Meeting meeting(2);  // the second rank never comes
    DeviceGroupOptions options;
    options.host = meeting.collectives(0, reduce);
    Meeting alone(1);
    alone.connect(options);
    auto group = DeviceGroup::open(options);
    ASSERT_TRUE(group);
    float value = 1;
    const DevicePart part{&value, &value, 1};
    const auto ticket =
        (*group)->allreduce(std::span(&part, 1), {MPIB_FLOAT32, MPIB_SUM, 1, 1}, {});
    ASSERT_TRUE(ticket);
    EXPECT_FALSE(*(*group)->poll(*ticket));
    (*group)->abandon({MPIB_ERROR_PEER_LOST, "rank 1 is lost"});
    const auto polled = (*group)->poll(*ticket);
    ASSERT_FALSE(polled);
    EXPECT_EQ(polled.error().text, "rank 1 is lost");
    meeting.call_off();
}

TEST(StagedGroup, ARankWithoutItsDeviceFailsOpeningOnAllRanks) {
    constexpr int no_such_device = 999;
    Meeting meeting(3);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 3; ++rank) {
        threads.emplace_back([&, rank] {
            DeviceGroupOptions options;
            options.name = "test group";
            options.rank = rank;
            options.size = 3;
            options.device = rank == 1 ? no_such_device : -1;
            meeting.connect(options);
            const auto group = DeviceGroup::open(options);
            ASSERT_FALSE(group);
            EXPECT_NE(group.error().text.find("test group: rank 1: "), std::string::npos)
                << group.error().text;
        });
    }
    for (auto& thread : threads)
        thread.join();
}

TEST(StagedGroup, SendingDeviceMemoryThroughUcxIsRefusedAloud) {
    Meeting meeting(1);
    DeviceGroupOptions options;
    options.path = DevicePath::ucx;
    meeting.connect(options);
    const auto group = DeviceGroup::open(options);
    ASSERT_FALSE(group);
    EXPECT_NE(group.error().text.find("not supported yet"), std::string::npos);
}

}  // namespace
