// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <mutex>
#include <vector>

#include "gpu/cuda/device.hpp"
#include "gpu/work_queue.hpp"

namespace mpi_bridge {

// A separate stream on a device. It has the highest priority, so that communication does not queue
// behind the computation that it should overlap with.
class CudaQueue final : public WorkQueue {
  public:
    // `device` comes from CudaDevice::get(), and so outlives the queue.
    [[nodiscard]] static Outcome<std::unique_ptr<CudaQueue>> open(CudaDevice& device);
    ~CudaQueue() override;

    [[nodiscard]] Outcome<Noted> note(DeviceStream other) override;
    [[nodiscard]] Done after(Noted noted) override;
    // Work that is enqueued in the other stream of the device later runs after these points. Each
    // counts as returned, also after a failure.
    [[nodiscard]] Done hold(DeviceStream other, std::span<const Noted> points);
    void forget(Noted noted) override;
    [[nodiscard]] Outcome<Mark> mark() override;
    [[nodiscard]] Outcome<bool> reached(Mark mark) override;
    [[nodiscard]] Done hold(DeviceStream other, Mark mark) override;
    [[nodiscard]] Done launch(Codec codec, Way way, const kernels::Arguments& arguments) override;
    [[nodiscard]] Done copy(void* to, const void* from, std::size_t bytes) override;
    [[nodiscard]] Outcome<Memory> tensor_memory(std::size_t bytes) override;
    [[nodiscard]] Outcome<Memory> host_memory(std::size_t bytes) override;
    [[nodiscard]] Outcome<Memory> ordered_memory(std::size_t bytes) override;
    [[nodiscard]] Outcome<Memory> result_memory(std::size_t bytes, DeviceStream stream) override;
    [[nodiscard]] Outcome<Memory> copy_of(std::span<const std::byte> content) override;
    [[nodiscard]] DeviceStream stream() const override { return {stream_}; }

  private:
    explicit CudaQueue(CudaDevice& device) : device_(device), cuda_(device.cuda()) {}
    [[nodiscard]] Done start();
    [[nodiscard]] Outcome<cuda::Event> take_event();
    // Memory of the driver, which is freed with its owner.
    [[nodiscard]] Memory owned(cuda::Address address) const;
    // What an allocation has returned, with its size in the text of a failure.
    [[nodiscard]] Done allocated(cuda::Result result, const char* call, std::size_t bytes) const;

    static constexpr std::size_t marks_kept = 1024;

    CudaDevice& device_;
    const cuda::Library& cuda_;
    cuda::Stream stream_ = nullptr;

    std::mutex mutex_;  // guards the members below
    std::vector<cuda::Event> spare_;
    std::array<cuda::Event, marks_kept> marks_{};  // mark n is at n % marks_kept
    std::uint64_t last_mark_ = 0;
    std::uint64_t reached_ = 0;  // all marks up to this one are known to be reached
};

}  // namespace mpi_bridge
