// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../device_tensor.hpp"
#include "control.hpp"
#include "tests/unit/mpi_bridge/engine/ranks.hpp"

namespace mpi_bridge_test {

inline std::vector<float> filled(std::size_t count, float value) {
    return std::vector<float>(count, value);
}

// One rank of an engine on a device, and a stream as its framework has one.
struct DeviceRank {
    Ranks::Rank& rank;
    mpi_bridge::CudaQueue& queue;

    [[nodiscard]] mpi_bridge::Engine& engine() const { return rank.engine(); }
    [[nodiscard]] mpi_bridge::cuda::Stream stream() const {
        return static_cast<mpi_bridge::cuda::Stream>(queue.stream().handle);
    }
};

// Runs the body as ranks with these devices. A rank that throws is lost to the others.
inline void on_devices(const std::vector<int>& devices, const Wishes& wishes,
                       const std::function<void(DeviceRank)>& body,
                       const std::function<void(const std::string&)>& thrown) {
    Ranks ranks(static_cast<int>(devices.size()), wishes);
    ranks.run([&](Ranks::Rank& rank) {
        try {
            const auto queue = must(mpi_bridge::CudaQueue::open(*must(
                mpi_bridge::CudaDevice::get(devices[static_cast<std::size_t>(rank.rank())]))));
            body({rank, *queue});
            static_cast<void>(rank.engine().shutdown());
        } catch (const std::exception& fault) {
            thrown(fault.what());
            rank.transport().abandon();
            rank.failure().fail({MPIB_ERROR_INTERNAL, fault.what()});
        }
    });
}

inline Wishes wishes_for(mpi_bridge::DevicePath path) {
    Wishes wishes;
    wishes.settings.device_path = path;
    return wishes;
}

}  // namespace mpi_bridge_test
