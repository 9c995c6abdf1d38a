// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gpu/cuda/device.hpp"
#include "gpu/cuda/queue.hpp"
#include "gpu/device_group.hpp"

namespace mpi_bridge_test {

// The outcome's value; a failure ends the test or the measurement with its text.
template <typename T>
T must(mpi_bridge::Outcome<T>&& outcome) {
    if (!outcome) throw std::runtime_error(outcome.error().text);
    return std::move(*outcome);
}
inline void must(mpi_bridge::Done&& done) {
    if (!done) throw std::runtime_error(done.error().text);
}

// Waits for a ticket as an engine does: by polling.
inline void finish(mpi_bridge::DeviceGroup& group, const mpi_bridge::DeviceTicket& ticket) {
    while (!must(group.poll(ticket)))
        std::this_thread::yield();
}

// Memory on device 0, and what is in it.
class DeviceBytes {
  public:
    DeviceBytes(mpi_bridge::CudaQueue& queue, std::size_t bytes)
        : queue_(queue), memory_(must(queue.tensor_memory(bytes + 1))), bytes_(bytes) {}
    DeviceBytes(mpi_bridge::CudaQueue& queue, const std::vector<std::byte>& content)
        : DeviceBytes(queue, content.size()) {
        must(queue_.copy(memory_.get(), content.data(), bytes_));
        synchronize();
    }

    [[nodiscard]] std::byte* at(std::size_t offset = 0) const { return memory_.get() + offset; }
    [[nodiscard]] std::vector<std::byte> content() const {
        std::vector<std::byte> bytes(bytes_);
        must(queue_.copy(bytes.data(), memory_.get(), bytes_));
        synchronize();
        return bytes;
    }
    void synchronize() const {
        const auto mark = must(queue_.mark());
        while (!must(queue_.reached(mark)))
            std::this_thread::yield();
    }

  private:
    mpi_bridge::CudaQueue& queue_;
    mpi_bridge::Memory memory_;
    std::size_t bytes_;
};

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
    std::vector<std::byte> bytes(values.size() * sizeof(T));
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

template <typename T>
std::vector<T> values_of(const std::vector<std::byte>& bytes) {
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

// Device 0, or why there is none.
inline mpi_bridge::Outcome<mpi_bridge::CudaDevice*> first_device() {
    return mpi_bridge::CudaDevice::get(0);
}

// A group of this process alone.
inline mpi_bridge::DeviceGroupOptions alone(mpi_bridge::DevicePath path) {
    mpi_bridge::DeviceGroupOptions options;
    options.name = "one rank";
    options.device = 0;
    options.path = path;
    options.patience = mpi_bridge::Seconds(60);
    options.broadcast_from_first = [](std::span<std::byte>) { return mpi_bridge::Done(); };
    options.allgather = [](std::span<const std::byte> own, std::span<std::byte> all) {
        std::memcpy(all.data(), own.data(), own.size());
        return mpi_bridge::Done();
    };
    return options;
}

}  // namespace mpi_bridge_test
