// SPDX-License-Identifier: Apache-2.0
//
// The engine on device memory, as a framework uses it: one rank over NCCL, ranks that share the
// GPU, and a rank without one. The ranks are threads of this process.
#include <gtest/gtest.h>

#include "device_fixture.hpp"
#include "device_tensor.hpp"
#include "gpu/nccl/library.hpp"
#include "tests/unit/mpi_bridge/engine/ranks.hpp"

namespace {

using namespace mpi_bridge;
using namespace mpi_bridge_test;

std::vector<float> filled(std::size_t count, float value) {
    return std::vector<float>(count, value);
}

std::vector<float> copied(CudaQueue* queue, const mpib_result& result) {
    std::vector<float> values(result.bytes / sizeof(float));
    if (queue == nullptr) {
        std::memcpy(values.data(), result.data, result.bytes);
        return values;
    }
    // On the operation's stream, as the contract asks.
    const DeviceBytes copy(*queue, result.bytes);
    must(queue->copy(copy.at(), result.data, result.bytes));
    return values_of<float>(copy.content());
}

// Some steps of a training loop; `present`: how many ranks' ones are summed.
void take_steps(Ranks::Rank& rank, CudaQueue* queue, float present) {
    for (int step = 0; step < 8; ++step) {
        std::vector<std::unique_ptr<Tensor>> tensors;
        std::vector<mpib_handle> handles;
        for (const std::size_t count : {3UL, 700UL, 2000003UL, 1UL}) {
            tensors.push_back(std::make_unique<Tensor>("gradient/" + std::to_string(handles.size()),
                                                       queue, filled(count, 1)));
            handles.push_back(submit(rank.engine(), tensors.back()->operation(MPIB_ALLREDUCE)));
        }
        for (std::size_t at = 0; at < handles.size(); ++at) {
            const auto done = mpi_bridge_test::finish(rank.engine(), handles[at]);
            ASSERT_TRUE(done) << done.error().text;
            const auto result = tensors[at]->result();
            ASSERT_EQ(result, filled(result.size(), present)) << "step " << step;
        }
    }
}

void gather(Ranks::Rank& rank, CudaQueue* queue, int size) {
    for (int step = 0; step < 3; ++step) {
        const auto own = static_cast<std::size_t>(1000 * (rank.rank() + 1));
        Tensor tensor("gathered", queue, filled(own, static_cast<float>(rank.rank())));
        const auto handle = submit(rank.engine(), tensor.operation(MPIB_ALLGATHER, false));
        const auto done = rank.engine().wait(handle, 0);
        ASSERT_TRUE(done) << done.error().text;
        const auto values = copied(queue, must(rank.engine().result(handle)));
        ASSERT_TRUE(rank.engine().release(handle));
        std::vector<float> expected;
        for (int from = 0; from < size; ++from)
            expected.insert(expected.end(), static_cast<std::size_t>(1000 * (from + 1)),
                            static_cast<float>(from));
        ASSERT_EQ(values, expected);
    }
}

// devices[r] is rank r's; -1: none.
void as_ranks(const std::vector<int>& devices, DevicePath path,
              const std::function<void(Ranks::Rank&, CudaQueue*)>& body) {
    Wishes wishes;
    wishes.settings.device_path = path;
    Ranks ranks(static_cast<int>(devices.size()), wishes);
    ranks.run([&](Ranks::Rank& rank) {
        const int device = devices[static_cast<std::size_t>(rank.rank())];
        std::unique_ptr<CudaQueue> queue;
        if (device >= 0) queue = must(CudaQueue::open(*must(CudaDevice::get(device))));
        body(rank, queue.get());
        EXPECT_TRUE(rank.engine().shutdown());
    });
    EXPECT_GT(ranks.at(0).counters().planned_buckets, 0U);
}

TEST(EngineOnDevice, OfOneRankGoesOverNccl) {
    if (auto device = first_device(); !device) GTEST_SKIP() << device.error().text;
    if (const auto nccl = nccl::library(); !nccl) GTEST_SKIP() << nccl.error().text;
    as_ranks({0}, DevicePath::nccl, [](Ranks::Rank& rank, CudaQueue* queue) {
        take_steps(rank, queue, 1);
        gather(rank, queue, 1);
        take_steps(rank, queue, 1);
    });
}

TEST(EngineOnDevice, OfRanksThatShareAGpuGoesThroughHostMemory) {
    if (auto device = first_device(); !device) GTEST_SKIP() << device.error().text;
    as_ranks({0, 0, 0}, DevicePath::automatic, [](Ranks::Rank& rank, CudaQueue* queue) {
        take_steps(rank, queue, 3);
        gather(rank, queue, 3);
        take_steps(rank, queue, 3);
    });
}

TEST(EngineOnDevice, ServesARankWithoutAGpuBesideOthers) {
    if (auto device = first_device(); !device) GTEST_SKIP() << device.error().text;
    as_ranks({0, -1}, DevicePath::automatic, [](Ranks::Rank& rank, CudaQueue* queue) {
        take_steps(rank, queue, 2);
        gather(rank, queue, 2);
    });
}

TEST(EngineOnDevice, LetsJoinedRanksTakePart) {
    if (auto device = first_device(); !device) GTEST_SKIP() << device.error().text;
    as_ranks({0, 0}, DevicePath::automatic, [](Ranks::Rank& rank, CudaQueue* queue) {
        take_steps(rank, queue, 2);
        if (rank.rank() == 1) take_steps(rank, queue, 1);
        EXPECT_EQ(must(rank.engine().join()), 1);
    });
}

TEST(EngineOnDevice, RefusesMemoryOfTheHostAfterMemoryOfADevice) {
    if (auto device = first_device(); !device) GTEST_SKIP() << device.error().text;
    Ranks ranks(1);
    const auto queue = must(CudaQueue::open(*must(first_device())));
    Tensor first("first", queue.get(), filled(4, 1));
    const auto done = ranks.at(0).engine().call(first.operation(MPIB_ALLREDUCE));
    ASSERT_TRUE(done) << done.error().text;
    Tensor second("second", nullptr, filled(4, 1));
    const auto refused = ranks.at(0).engine().submit(second.operation(MPIB_ALLREDUCE));
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().text.find("the tensor is in host memory"), std::string::npos)
        << refused.error().text;
}

// An allreduce and an allgather in which this rank has nothing, and so no memory.
void take_part_with_nothing(Ranks::Rank& rank, CudaQueue* queue, int place) {
    Tensor something("gathered from one", queue, filled(3, 7));
    const std::int64_t none = 0;
    auto nothing = something.operation(MPIB_ALLGATHER, false);
    if (rank.rank() != 0) {
        nothing.send = nullptr;
        nothing.shape = &none;
        nothing.place = place;
    }
    const auto handle = submit(rank.engine(), nothing);
    const auto done = rank.engine().wait(handle, 0);
    ASSERT_TRUE(done) << done.error().text;
    EXPECT_EQ(copied(queue, must(rank.engine().result(handle))), filled(3, 7));
    ASSERT_TRUE(rank.engine().release(handle));
}

TEST(EngineOnDevice, ARankWhoseFirstTensorIsEmptyKeepsItsDevice) {
    if (auto device = first_device(); !device) GTEST_SKIP() << device.error().text;
    for (const int place : {MPIB_ON_DEVICE(0), 0}) {
        // Without a place, the ranks of a host share out the devices.
        if (place == 0 && device_count() > 1) continue;
        as_ranks({0, 0}, DevicePath::automatic, [place](Ranks::Rank& rank, CudaQueue* queue) {
            take_part_with_nothing(rank, queue, place);
            take_steps(rank, queue, 2);
            EXPECT_EQ(rank.engine().device(), 0);
        });
    }
}

TEST(EngineOnDevice, ARankThatJoinsFirstKeepsItsDevice) {
    if (auto device = first_device(); !device) GTEST_SKIP() << device.error().text;
    as_ranks({0, 0}, DevicePath::automatic, [](Ranks::Rank& rank, CudaQueue* queue) {
        if (device_count() > 1) {
            ASSERT_TRUE(rank.engine().set_device(0));
        }
        if (rank.rank() == 0) take_steps(rank, queue, 1);
        EXPECT_EQ(must(rank.engine().join()), 0);
        take_steps(rank, queue, 2);
        EXPECT_EQ(rank.engine().device(), 0);
    });
}

TEST(EngineOnDevice, RefusesAPlaceThatIsNotTheTensors) {
    if (auto device = first_device(); !device) GTEST_SKIP() << device.error().text;
    Ranks ranks(1);
    const auto queue = must(CudaQueue::open(*must(first_device())));
    Tensor tensor("x", queue.get(), filled(4, 1));
    auto operation = tensor.operation(MPIB_ALLREDUCE);
    operation.place = MPIB_ON_HOST;
    const auto refused = ranks.at(0).engine().submit(operation);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().text.find("names host memory, but its memory is in CUDA device 0"),
              std::string::npos)
        << refused.error().text;
    auto& engine = ranks.at(0).engine();
    EXPECT_EQ(engine.device(), MPIB_DEVICE_UNKNOWN);
    EXPECT_FALSE(engine.set_device(1000));
    EXPECT_FALSE(engine.set_device(-2));
    EXPECT_TRUE(engine.set_device(0));
    EXPECT_TRUE(engine.set_device(0));
    EXPECT_FALSE(engine.set_device(MPIB_ON_HOST));
}

}  // namespace
