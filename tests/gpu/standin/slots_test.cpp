// SPDX-License-Identifier: Apache-2.0
//
// Buckets on stand-in devices: one is packed while another is reduced, and none is packed into
// memory that is still in use.
#include "engines.hpp"

namespace {

using namespace mpi_bridge;
using namespace mpi_bridge_test;

// An operation that needs a bucket, because NCCL does not have it as we define it. Of two
// neighbours with different ones, each has a bucket of its own.
mpib_operation operation_of(Tensor& tensor, std::size_t number) {
    mpib_operation operation = tensor.operation(MPIB_ALLREDUCE);
    operation.op = number % 2 == 0 ? MPIB_MAX : MPIB_MIN;
    return operation;
}

float value_of(std::size_t number, int rank) {
    return static_cast<float>(static_cast<int>(number) * 10 + rank);
}

float result_of(std::size_t number, int ranks) {
    return value_of(number, number % 2 == 0 ? ranks - 1 : 0);
}

// Submits all before it waits for the first one.
class Operations {
  public:
    Operations(const DeviceRank& at, std::size_t count, std::size_t elements)
        : at_(at), elements_(elements) {
        for (std::size_t i = 0; i < count; ++i)
            tensors_.push_back(std::make_unique<Tensor>(
                "x" + std::to_string(i), &at.queue, filled(elements, value_of(i, at.rank.rank()))));
    }
    void submit() {
        for (std::size_t i = 0; i < tensors_.size(); ++i)
            handles_.push_back(
                mpi_bridge_test::submit(at_.engine(), operation_of(*tensors_[i], i)));
    }
    void finish() {
        for (std::size_t i = 0; i < tensors_.size(); ++i) {
            const auto done = mpi_bridge_test::finish(at_.engine(), handles_[i]);
            ASSERT_TRUE(done) << done.error().text;
            ASSERT_EQ(tensors_[i]->result(), filled(elements_, result_of(i, at_.rank.size()))) << i;
        }
        handles_.clear();
    }

  private:
    const DeviceRank& at_;
    std::size_t elements_;
    std::vector<std::unique_ptr<Tensor>> tensors_;
    std::vector<mpib_handle> handles_;
};

void with_ranks(int ranks, const std::function<void(DeviceRank)>& body) {
    std::vector<int> devices;
    for (int rank = 0; rank < ranks; ++rank)
        devices.push_back(rank);
    must_end(std::chrono::seconds(60), [&] {
        on_devices(devices, wishes_for(DevicePath::nccl), body,
                   [](const std::string& text) { ADD_FAILURE() << text; });
    });
}

TEST(BucketSlots, OneIsPackedWhileAnotherIsReduced) {
    Standin::get().configure("delay=0 devices=2");
    with_ranks(2, [](DeviceRank at) {
        Operations two(at, 2, 1000);
        // NCCL connects, and the memory is made.
        for (int step = 0; step < 3; ++step) {
            two.submit();
            two.finish();
        }
        meet(at);
        const auto packed = [] { return Standin::get().count("kernels of device 0"); };
        const long before = packed();
        meet(at);
        {
            // NCCL's kernel on device 0 waits for that of device 1, which waits for this.
            std::optional<Gate> gate;
            if (at.rank.rank() == 1) gate.emplace(at.queue.stream());
            two.submit();
            const auto limit = Clock::now() + std::chrono::seconds(20);
            while (at.rank.rank() == 0 && packed() < before + 2 && Clock::now() < limit)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            if (at.rank.rank() == 0) {
                EXPECT_EQ(packed(), before + 2);
            }
            meet(at);
        }
        two.finish();
    });
}

// The kernels and the memory of buckets are there before the first one, or come without waiting for
// the device: in a program that also uses NCCL itself, a kernel on it may wait for another rank,
// which waits for this one.
class WithoutAnIdleDevice : public testing::TestWithParam<DevicePath> {};

TEST_P(WithoutAnIdleDevice, ABucketIsReduced) {
    Standin::get().configure("delay=0");
    must_end(std::chrono::seconds(60), [] {
        const auto queue = must(CudaQueue::open(*must(first_device())));
        const auto busy = must(CudaQueue::open(*must(first_device())));
        auto options = alone(GetParam());
        options.host.allreduce = [](auto...) { return Done(); };
        const auto group = must(DeviceGroup::open(options));
        const DeviceBytes tensors(*queue, bytes_of(filled(600, 3)));
        const DevicePart parts[] = {{tensors.at(), tensors.at(), 200},
                                    {tensors.at(800), tensors.at(800), 400}};
        {
            const Gate gate(busy->stream());
            finish(*group,
                   must(group->allreduce(parts, {MPIB_FLOAT32, MPIB_SUM, 2, 1}, queue->stream())));
        }
        EXPECT_EQ(values_of<float>(tensors.content()), filled(600, 6));
        must(group->close(Deadline::in(Seconds(30))));
    });
}

INSTANTIATE_TEST_SUITE_P(BucketSlots, WithoutAnIdleDevice,
                         testing::Values(DevicePath::nccl, DevicePath::staged));

// NCCL's own variable would make every call wait, so that no abort could come between.
TEST(Opening, TakesNoCommunicatorThatBlocks) {
    Standin::get().configure("delay=0");
    setenv("NCCL_COMM_BLOCKING", "1", 1);
    const auto refused = DeviceGroup::open(alone(DevicePath::nccl));
    auto options = alone(DevicePath::automatic);
    const auto staged = must(DeviceGroup::open(options));
    unsetenv("NCCL_COMM_BLOCKING");
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().text.find("NCCL_COMM_BLOCKING=1"), std::string::npos)
        << refused.error().text;
    EXPECT_NE(staged->describe().find("NCCL_COMM_BLOCKING=1"), std::string::npos)
        << staged->describe();
}

// More buckets than there is memory for are under way at once.
TEST(BucketSlots, TakeTurns) {
    with_seeds(6, "delay=2000 devices=3", [] {
        with_ranks(3, [](DeviceRank at) {
            Operations many(at, 7, 20000);
            for (int step = 0; step < 5; ++step) {
                many.submit();
                many.finish();
            }
        });
        EXPECT_EQ(Standin::get().live_events(), 0);
        EXPECT_EQ(Standin::get().live_streams(), 0);
        EXPECT_EQ(Standin::get().live_memory(), 0);
    });
}

}  // namespace
