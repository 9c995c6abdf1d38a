// SPDX-License-Identifier: Apache-2.0
//
// The stand-in itself: it must be as strict as the real device, or what passes on it says nothing.
#include <atomic>
#include <cstring>
#include <optional>

#include <gtest/gtest.h>

#include "../device_fixture.hpp"
#include "control.hpp"

namespace {

using namespace mpi_bridge;
using namespace mpi_bridge_test;
using namespace std::chrono_literals;

class Rules : public testing::Test {
  protected:
    void SetUp() override {
        // A child by fork() alone has no streams that go on.
        testing::GTEST_FLAG(death_test_style) = "threadsafe";
        Standin::get().configure("delay=200");
        device_ = must(first_device());
        queue_ = must(CudaQueue::open(*device_));
        current_.emplace(*device_);
    }
    [[nodiscard]] cuda::Stream stream() const {
        return static_cast<cuda::Stream>(queue_->stream().handle);
    }
    [[nodiscard]] cuda::Event make_event() const {
        cuda::Event event = nullptr;
        EXPECT_EQ(cuda().event_create(&event, cuda::event_disable_timing), cuda::success);
        return event;
    }
    [[nodiscard]] const cuda::Library& cuda() const { return device_->cuda(); }

    CudaDevice* device_ = nullptr;
    std::unique_ptr<CudaQueue> queue_;
    std::optional<CudaDevice::Current> current_;
};

TEST_F(Rules, TheHostCannotTouchDeviceMemory) {
    const DeviceBytes memory(*queue_, std::vector<std::byte>(100));
    EXPECT_DEATH(std::memset(memory.at(), 0, 1), "");
}

TEST_F(Rules, WhatReachesBeyondItsMemoryEndsTheDevice) {
    EXPECT_EXIT(
        {
            const DeviceBytes small(*queue_, std::vector<std::byte>(100));
            const DeviceBytes large(*queue_, std::vector<std::byte>(10000));
            must(queue_->copy(large.at(), small.at(), 10000));
            cuda().stream_synchronize(stream());
            // Every call from now on says so.
            std::exit(cuda().event_query(make_event()) == static_cast<cuda::Result>(700) ? 7 : 1);
        },
        testing::ExitedWithCode(7), "");
}

TEST_F(Rules, FreedMemoryIsNotThereInTheOrderOfTheStream) {
    EXPECT_EXIT(
        {
            auto memory = must(queue_->result_memory(1000, queue_->stream()));
            const DeviceBytes other(*queue_, std::vector<std::byte>(1000));
            std::byte* const at = memory.get();
            must(queue_->copy(at, other.at(), 1000));
            memory.reset();
            if (cuda().stream_synchronize(stream()) != cuda::success) std::exit(1);
            must(queue_->copy(at, other.at(), 1000));
            std::exit(cuda().stream_synchronize(stream()) == cuda::success ? 1 : 7);
        },
        testing::ExitedWithCode(7), "");
}

TEST_F(Rules, AStreamIsNoPlaceForAnEventOfAnotherDevice) {
    Standin::get().configure("devices=2");
    const auto other = must(CudaQueue::open(*must(CudaDevice::get(1))));
    EXPECT_EQ(cuda().event_record(make_event(), static_cast<cuda::Stream>(other->stream().handle)),
              static_cast<cuda::Result>(400));
}

TEST_F(Rules, AnEventThatWasNeverRecordedIsComplete) {
    cuda::Event event = make_event();
    EXPECT_EQ(cuda().event_query(event), cuda::success);
    EXPECT_EQ(cuda().stream_wait_event(stream(), event, 0), cuda::success);
    EXPECT_EQ(cuda().stream_synchronize(stream()), cuda::success);
}

TEST_F(Rules, AWaitRefersToTheRecordThatWasThere) {
    const auto other = must(CudaQueue::open(*device_));
    auto* const second = static_cast<cuda::Stream>(other->stream().handle);
    cuda::Event event = make_event();
    EXPECT_EQ(cuda().event_record(event, stream()), cuda::success);
    EXPECT_EQ(cuda().stream_wait_event(second, event, 0), cuda::success);
    Gate gate(queue_->stream());
    // A later record, which is not reached, changes nothing for that wait.
    EXPECT_EQ(cuda().event_record(event, stream()), cuda::success);
    EXPECT_EQ(cuda().stream_synchronize(second), cuda::success);
    EXPECT_EQ(cuda().event_query(event), cuda::not_ready);
    EXPECT_EQ(cuda().event_destroy(event), cuda::success);
}

TEST_F(Rules, StreamsRunBesideTheirHostAndEachOther) {
    const auto other = must(CudaQueue::open(*device_));
    const DeviceBytes memory(*other, std::vector<std::byte>{});
    Gate gate(queue_->stream());
    const auto mark = must(queue_->mark());
    other->forget(must(other->note(other->stream())));
    memory.synchronize();
    EXPECT_FALSE(must(queue_->reached(mark)));
    must(other->hold(queue_->stream(), must(other->mark())));
}

TEST_F(Rules, TheLegacyStreamWaitsForBlockingStreamsOnly) {
    cuda::Stream blocking = nullptr;
    EXPECT_EQ(cuda().stream_create(&blocking, 0, 0), cuda::success);
    {
        Gate own(queue_->stream());
        EXPECT_EQ(cuda().stream_synchronize(nullptr), cuda::success);
    }
    std::atomic<int> order{0};
    auto late = [](void* at) {
        std::this_thread::sleep_for(20ms);
        ++*static_cast<std::atomic<int>*>(at);
    };
    Standin::get().host_function(blocking, late, &order);
    Standin::get().host_function(
        nullptr,
        [](void* at) {
            auto& number = *static_cast<std::atomic<int>*>(at);
            number = number * 10;
        },
        &order);
    EXPECT_EQ(cuda().stream_synchronize(nullptr), cuda::success);
    EXPECT_EQ(order, 10);
    EXPECT_EQ(cuda().stream_destroy(blocking), cuda::success);
}

TEST_F(Rules, AllocatingWaitsForTheDevice) {
    Gate gate(queue_->stream());
    std::atomic<bool> allocated{false};
    std::thread thread([&] {
        const auto memory = must(queue_->tensor_memory(100));
        allocated = true;
    });
    std::this_thread::sleep_for(20ms);
    EXPECT_FALSE(allocated);
    gate.open();
    thread.join();
}

TEST_F(Rules, ACopyFromPageableMemoryTakesWhatIsThereAtTheCall) {
    const DeviceBytes memory(*queue_, std::vector<std::byte>(64));
    std::vector<std::byte> source(64, std::byte{1});
    {
        Gate gate(queue_->stream());
        must(queue_->copy(memory.at(), source.data(), 64));
        std::fill(source.begin(), source.end(), std::byte{2});
    }
    EXPECT_EQ(memory.content(), std::vector<std::byte>(64, std::byte{1}));
}

// Such a capture is torch.cuda.graph()'s.
TEST_F(Rules, ACaptureForbidsUnsafeCallsOfOtherThreads) {
    constexpr int global = 0;
    constexpr int of_thread = 1;
    cuda::Event event = make_event();
    for (const int mode : {global, of_thread}) {
        ASSERT_EQ(Standin::get().begin_capture(stream(), mode), cuda::success);
        std::thread([&] {
            const auto result = cuda().event_query(event);
            EXPECT_EQ(result, mode == global ? static_cast<cuda::Result>(900) : cuda::success);
        }).join();
        void* graph = nullptr;
        EXPECT_EQ(Standin::get().end_capture(stream(), &graph),
                  mode == global ? static_cast<cuda::Result>(901) : cuda::success);
    }
}

}  // namespace
