// SPDX-License-Identifier: Apache-2.0
//
// Groups of ranks on one GPU: one rank over NCCL, two ranks through host memory, and a rank with
// the GPU beside one without.
#include <array>
#include <functional>

#include <gtest/gtest.h>

#include "../unit/mpi_bridge/gpu/meeting.hpp"
#include "../unit/mpi_bridge/reference.hpp"
#include "device_fixture.hpp"
#include "gpu/nccl/library.hpp"

namespace {

using namespace mpi_bridge;
using namespace mpi_bridge_test;

class OneRank : public testing::Test {
  protected:
    void SetUp() override {
        auto device = first_device();
        if (!device) GTEST_SKIP() << device.error().text;
        const auto nccl = nccl::library();
        if (!nccl) GTEST_SKIP() << nccl.error().text;
        queue_ = must(CudaQueue::open(**device));
        group_ = must(DeviceGroup::open(alone(DevicePath::nccl)));
    }
    void TearDown() override {
        if (group_ == nullptr) return;
        EXPECT_TRUE(group_->close(Deadline::in(Seconds(30))));
    }

    std::unique_ptr<CudaQueue> queue_;
    std::unique_ptr<DeviceGroup> group_;
};

// Alone, every reduction is the identity, through whatever conversion it needs.
TEST_F(OneRank, KeepsEveryTypeUnderEveryOperation) {
    for (const mpib_datatype datatype : {MPIB_UINT8, MPIB_INT8, MPIB_INT16, MPIB_INT32, MPIB_INT64,
                                         MPIB_FLOAT16, MPIB_BFLOAT16, MPIB_FLOAT32, MPIB_FLOAT64}) {
        for (const mpib_op op : {MPIB_SUM, MPIB_AVERAGE, MPIB_MIN, MPIB_MAX, MPIB_PRODUCT}) {
            with_type(datatype, [&](auto type) {
                using T = decltype(type);
                const auto values = bytes_of(random_values<T>(10007, 21));
                for (const std::size_t tensors : {std::size_t{1}, std::size_t{3}}) {
                    std::vector<DeviceBytes> send;
                    std::vector<DeviceBytes> recv;
                    std::vector<DevicePart> parts;
                    for (std::size_t i = 0; i < tensors; ++i) {
                        send.emplace_back(*queue_, values);
                        recv.emplace_back(*queue_, std::vector<std::byte>(values.size()));
                        parts.push_back({send[i].at(), recv[i].at(), 10007});
                    }
                    finish(*group_,
                           must(group_->allreduce(parts, {datatype, op, 1, 1}, queue_->stream())));
                    for (const auto& result : recv)
                        ASSERT_EQ(result.content(), values) << datatype << " " << op;
                }
            });
        }
    }
}

TEST_F(OneRank, ScalesOnTheWay) {
    const auto values = random_values<float>(5000, 4);
    const DeviceBytes tensor(*queue_, bytes_of(values));
    const DevicePart part{tensor.at(), tensor.at(), values.size()};
    finish(*group_,
           must(group_->allreduce(std::span(&part, 1), {MPIB_FLOAT32, MPIB_AVERAGE, 0.5, 3},
                                  queue_->stream())));
    const auto result = values_of<float>(tensor.content());
    for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_FLOAT_EQ(result[i], values[i] * 1.5F);
}

TEST_F(OneRank, MovesBytesByEveryOtherCollective) {
    const auto values = bytes_of(random_values<std::int32_t>(1000, 8));
    const DeviceBytes send(*queue_, values);
    const auto check = [&](const std::function<Outcome<DeviceTicket>(std::byte*)>& collective) {
        const DeviceBytes recv(*queue_, std::vector<std::byte>(values.size()));
        finish(*group_, must(collective(recv.at())));
        EXPECT_EQ(recv.content(), values);
    };
    const DeviceStream stream = queue_->stream();
    const std::size_t length = values.size();
    const std::size_t elements = 1000;
    check([&](std::byte* recv) {
        const DevicePart part{send.at(), recv, length};
        return group_->broadcast(std::span(&part, 1), 0, stream);
    });
    check([&](std::byte* recv) {
        return group_->allgather(send.at(), recv, std::span(&length, 1), stream);
    });
    check([&](std::byte* recv) {
        return group_->alltoall(send.at(), std::span(&length, 1), recv, std::span(&length, 1),
                                stream);
    });
    check([&](std::byte* recv) {
        return group_->reduce_scatter(send.at(), recv, std::span(&elements, 1),
                                      {MPIB_INT32, MPIB_SUM, 1, 1}, stream);
    });
}

TEST_F(OneRank, OrdersItselfBetweenTheCallersWork) {
    // Fill, reduce and read back, each put into a stream before the one before has run.
    const std::size_t bytes = std::size_t{64} << 20;
    const DeviceBytes tensor(*queue_, std::vector<std::byte>(bytes));
    const DeviceBytes copy(*queue_, std::vector<std::byte>(bytes));
    const DeviceBytes ones(*queue_, bytes_of(std::vector<float>(bytes / 4, 1.0F)));
    must(queue_->copy(tensor.at(), ones.at(), bytes));
    const DevicePart part{tensor.at(), tensor.at(), bytes / 4};
    const auto ticket = must(
        group_->allreduce(std::span(&part, 1), {MPIB_FLOAT32, MPIB_SUM, 2, 1}, queue_->stream()));
    must(group_->make_stream_wait(ticket, queue_->stream(), Seconds(20)));
    must(queue_->copy(copy.at(), tensor.at(), bytes));
    EXPECT_EQ(values_of<float>(copy.content()), std::vector<float>(bytes / 4, 2.0F));
}

// ---- Two ranks ---------------------------------------------------------------------------------

void sum_doubles(std::byte* out, const std::vector<const std::byte*>& inputs, std::size_t first,
                 std::size_t count, mpib_datatype /*datatype*/, mpib_op /*op*/) {
    auto* result = reinterpret_cast<double*>(out);
    for (std::size_t i = 0; i < count; ++i) {
        result[i] = 0;
        for (const std::byte* input : inputs)
            result[i] += reinterpret_cast<const double*>(input)[first + i];
    }
}

using Body = std::function<void(DeviceGroup&, CudaQueue*, int rank)>;

void as_rank(int rank, int device, Meeting& meeting, const Body& body) {
    DeviceGroupOptions options;
    options.name = "two ranks";
    options.rank = rank;
    options.size = 2;
    options.device = device;
    options.host = meeting.collectives(rank, sum_doubles);
    options.patience = Seconds(60);
    options.chunk_bytes = std::size_t{1} << 20;
    meeting.connect(options);
    std::unique_ptr<CudaQueue> queue;
    if (device >= 0) queue = must(CudaQueue::open(*must(CudaDevice::get(device))));
    auto group = must(DeviceGroup::open(options));
    body(*group, queue.get(), rank);
}

// Two ranks as threads of this process; a device of -1 is a rank without one.
void as_two_ranks(std::array<int, 2> devices, const Body& body) {
    Meeting meeting(2);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
        threads.emplace_back([&, rank] {
            try {
                as_rank(rank, devices[static_cast<std::size_t>(rank)], meeting, body);
            } catch (const std::exception& fault) {
                meeting.call_off();
                ADD_FAILURE() << "rank " << rank << ": " << fault.what();
            }
        });
    }
    for (auto& thread : threads)
        thread.join();
}

constexpr std::size_t large = 1000003;  // some chunks and a rest

void reduce_on_device(DeviceGroup& group, CudaQueue& queue, int rank) {
    const auto mine = random_values<double>(large, static_cast<std::uint64_t>(rank));
    const auto theirs = random_values<double>(large, static_cast<std::uint64_t>(1 - rank));
    const DeviceBytes first(queue, bytes_of(mine));
    const DeviceBytes second(queue, bytes_of(std::vector<double>{1.0 + rank}));
    const DevicePart parts[] = {{first.at(), first.at(), large}, {second.at(), second.at(), 1}};
    finish(group, must(group.allreduce(parts, {MPIB_FLOAT64, MPIB_SUM, 1, 2}, queue.stream())));
    const auto result = values_of<double>(first.content());
    for (std::size_t i = 0; i < large; ++i)
        ASSERT_EQ(result[i], 2 * (rank == 0 ? mine[i] + theirs[i] : theirs[i] + mine[i]));
    EXPECT_EQ(values_of<double>(second.content())[0], 6);
}

TEST(TwoRanks, OnOneGpuGoThroughHostMemory) {
    if (auto device = first_device(); !device) GTEST_SKIP() << device.error().text;
    as_two_ranks({0, 0}, [](DeviceGroup& group, CudaQueue* queue, int rank) {
        EXPECT_NE(group.describe().find("host-staged: "), std::string::npos);
        reduce_on_device(group, *queue, rank);
    });
}

TEST(TwoRanks, OfWhichOneHasNoGpuGoThroughHostMemory) {
    if (auto device = first_device(); !device) GTEST_SKIP() << device.error().text;
    as_two_ranks({0, -1}, [](DeviceGroup& group, CudaQueue* queue, int rank) {
        EXPECT_EQ(group.describe(), "host-staged: the tensors of rank 1 are on the host");
        if (rank == 0) return reduce_on_device(group, *queue, rank);
        auto tensor = random_values<double>(large, 1);
        double one = 2;
        const DevicePart parts[] = {{tensor.data(), tensor.data(), large}, {&one, &one, 1}};
        finish(group, must(group.allreduce(parts, {MPIB_FLOAT64, MPIB_SUM, 1, 2}, {})));
        EXPECT_EQ(one, 6);
    });
}

}  // namespace
