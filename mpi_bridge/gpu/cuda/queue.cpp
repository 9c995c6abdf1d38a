// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/queue.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

namespace mpi_bridge {
namespace {

cuda::Stream stream_of(DeviceStream stream) {
    return static_cast<cuda::Stream>(stream.handle);
}

cuda::Address address_of(const void* memory) {
    return reinterpret_cast<std::uintptr_t>(memory);
}

}  // namespace

Outcome<std::unique_ptr<CudaQueue>> CudaQueue::open(CudaDevice& device) {
    std::unique_ptr<CudaQueue> queue(new CudaQueue(device));
    TRY(queue->start());
    return queue;
}

Done CudaQueue::start() {
    const CudaDevice::Current current(device_);
    int least = 0;
    int greatest = 0;
    TRY(cuda_.check(cuda_.stream_priorities(&least, &greatest), "cuCtxGetStreamPriorityRange"));
    return cuda_.check(cuda_.stream_create(&stream_, cuda::stream_non_blocking, greatest),
                       "cuStreamCreateWithPriority");
}

// Work that is still running continues: the driver frees streams and events when they are no longer
// in use.
CudaQueue::~CudaQueue() {
    const CudaDevice::Current current(device_);
    for (const cuda::Event event : spare_)
        cuda_.event_destroy(event);
    for (const cuda::Event event : marks_) {
        if (event != nullptr) cuda_.event_destroy(event);
    }
    if (stream_ != nullptr) cuda_.stream_destroy(stream_);
}

Outcome<cuda::Event> CudaQueue::take_event() {
    if (!spare_.empty()) {
        const cuda::Event event = spare_.back();
        spare_.pop_back();
        return event;
    }
    cuda::Event event = nullptr;
    TRY(cuda_.check(cuda_.event_create(&event, cuda::event_disable_timing), "cuEventCreate"));
    return event;
}

Outcome<WorkQueue::Noted> CudaQueue::note(DeviceStream other) {
    const CudaDevice::Current current(device_);
    const std::lock_guard lock(mutex_);
    const auto event = TRY(take_event());
    auto done = cuda_.check(cuda_.event_record(event, stream_of(other)), "cuEventRecord");
    if (!done) {
        spare_.push_back(event);
        return pass_on(std::move(done));
    }
    return Noted{event};
}

Done CudaQueue::after(Noted noted) {
    return hold(stream(), std::span(&noted, 1));
}

// An event may be reused at once, because the enqueued wait refers to the record that it saw.
Done CudaQueue::hold(DeviceStream other, std::span<const Noted> points) {
    const CudaDevice::Current current(device_);
    Done done;
    for (const Noted& noted : points) {
        auto* event = static_cast<cuda::Event>(noted.event);
        if (done)
            done = cuda_.check(cuda_.stream_wait_event(stream_of(other), event, 0),
                               "cuStreamWaitEvent");
        forget(noted);
    }
    return done;
}

void CudaQueue::forget(Noted noted) {
    const std::lock_guard lock(mutex_);
    spare_.push_back(static_cast<cuda::Event>(noted.event));
}

Outcome<WorkQueue::Mark> CudaQueue::mark() {
    const CudaDevice::Current current(device_);
    const std::lock_guard lock(mutex_);
    cuda::Event& event = marks_[(last_mark_ + 1) % marks_kept];
    if (event == nullptr) {
        event = TRY(take_event());
    }
    TRY(cuda_.check(cuda_.event_record(event, stream_), "cuEventRecord"));
    return Mark{++last_mark_};
}

Outcome<bool> CudaQueue::reached(Mark mark) {
    const CudaDevice::Current current(device_);
    const std::lock_guard lock(mutex_);
    if (mark.number <= reached_) return true;
    const cuda::Result result = cuda_.event_query(marks_[mark.number % marks_kept]);
    if (result == cuda::not_ready) return false;
    TRY(cuda_.check(result, "cuEventQuery"));
    reached_ = mark.number;
    return true;
}

Done CudaQueue::hold(DeviceStream other, Mark mark) {
    const CudaDevice::Current current(device_);
    const std::lock_guard lock(mutex_);
    if (mark.number <= reached_) return {};
    const cuda::Event event = marks_[mark.number % marks_kept];
    return cuda_.check(cuda_.stream_wait_event(stream_of(other), event, 0), "cuStreamWaitEvent");
}

Done CudaQueue::launch(Codec codec, Way way, const kernels::Arguments& arguments) {
    const auto blocks = blocks_for(codec, arguments.elements);
    if (blocks == 0) return {};
    if (blocks > std::numeric_limits<std::int32_t>::max()) {
        return invalid(fmt::format("a bucket of {} elements is too large", arguments.elements));
    }
    const auto kernel = TRY(device_.kernel(codec, way));
    const CudaDevice::Current current(device_);
    // The driver copies the arguments; its parameters are just not declared const.
    void* parameters[] = {const_cast<kernels::Arguments*>(&arguments)};
    constexpr unsigned threads = kernels::warp_lanes * kernels::warps_per_block;
    return cuda_.check(cuda_.launch(kernel, static_cast<unsigned>(blocks), 1, 1, threads, 1, 1, 0,
                                    stream_, parameters, nullptr),
                       "cuLaunchKernel");
}

Done CudaQueue::copy(void* to, const void* from, std::size_t bytes) {
    if (bytes == 0) return {};
    const CudaDevice::Current current(device_);
    return cuda_.check(cuda_.copy_async(address_of(to), address_of(from), bytes, stream_),
                       "cuMemcpyAsync");
}

Done CudaQueue::allocated(cuda::Result result, const char* call, std::size_t bytes) const {
    Done done = cuda_.check(result, call);
    if (!done) {
        done.error().text +=
            fmt::format(" ({} bytes on {}, device {})", bytes, device_.name(), device_.ordinal());
    }
    return done;
}

Outcome<Memory> CudaQueue::tensor_memory(std::size_t bytes) {
    const CudaDevice::Current current(device_);
    cuda::Address address = 0;
    TRY(allocated(cuda_.memory_allocate(&address, bytes), "cuMemAlloc", bytes));
    return owned(address);
}

Memory CudaQueue::owned(cuda::Address address) const {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver returns addresses as integers.
    return Memory(reinterpret_cast<std::byte*>(address), [this_device = &device_](std::byte* at) {
        const CudaDevice::Current owner(*this_device);
        static_cast<void>(this_device->cuda().memory_free(address_of(at)));
    });
}

// The driver frees such memory at once, while for memory of cuMemAlloc it waits for the device.
Outcome<Memory> CudaQueue::ordered_memory(std::size_t bytes) {
    const CudaDevice::Current current(device_);
    cuda::Address address = 0;
    const auto result = cuda_.memory_allocate_async(&address, bytes, stream_);
    if (result == cuda::not_supported) return tensor_memory(bytes);
    TRY(allocated(result, "cuMemAllocAsync", bytes));
    return owned(address);
}

// If the device cannot allocate memory in stream order (some virtual GPUs cannot), this returns
// memory that is freed when the device has finished all its work.
Outcome<Memory> CudaQueue::result_memory(std::size_t bytes, DeviceStream stream) {
    const CudaDevice::Current current(device_);
    cuda::Address address = 0;
    const auto result = cuda_.memory_allocate_async(&address, bytes, stream_of(stream));
    if (result == cuda::not_supported) return tensor_memory(bytes);
    TRY(allocated(result, "cuMemAllocAsync", bytes));
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver returns addresses as integers.
    return Memory(reinterpret_cast<std::byte*>(address), [this_device = &device_,
                                                          stream](std::byte* at) {
        const CudaDevice::Current owner(*this_device);
        static_cast<void>(this_device->cuda().memory_free_async(address_of(at), stream_of(stream)));
    });
}

// The driver keeps what it takes from pageable memory. The copy itself may come later, so it must
// be in this queue's order.
Outcome<Memory> CudaQueue::copy_of(std::span<const std::byte> content) {
    auto memory = tensor_memory(std::max<std::size_t>(content.size(), 1));
    if (memory) TRY(copy(memory->get(), content.data(), content.size()));
    return memory;
}

Outcome<Memory> CudaQueue::host_memory(std::size_t bytes) {
    const CudaDevice::Current current(device_);
    void* memory = nullptr;
    auto done = cuda_.check(cuda_.host_allocate(&memory, bytes, cuda::host_alloc_portable),
                            "cuMemHostAlloc");
    if (!done) {
        done.error().text +=
            fmt::format(" ({} bytes of pinned host memory; check the memlock limit)", bytes);
        return pass_on(std::move(done));
    }
    return Memory(static_cast<std::byte*>(memory), [this_device = &device_](std::byte* at) {
        const CudaDevice::Current owner(*this_device);
        static_cast<void>(this_device->cuda().host_free(at));
    });
}

}  // namespace mpi_bridge
