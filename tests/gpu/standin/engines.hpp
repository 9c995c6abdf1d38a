// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
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
    std::atomic<int>& lost;  // set to this rank, it is lost to the others

    [[nodiscard]] mpi_bridge::Engine& engine() const { return rank.engine(); }
    [[nodiscard]] mpi_bridge::cuda::Stream stream() const {
        return static_cast<mpi_bridge::cuda::Stream>(queue.stream().handle);
    }
};

// Waits for all ranks.
inline void meet(const DeviceRank& at) {
    mpib_operation barrier{};
    barrier.struct_bytes = sizeof barrier;
    barrier.kind = MPIB_BARRIER;
    barrier.name = "all are here";
    const auto done = at.engine().call(barrier);
    ASSERT_TRUE(done) << done.error().text;
}

// Runs the body as ranks with these devices. A rank that throws is lost to the others.
inline void on_devices(const std::vector<int>& devices, const Wishes& wishes,
                       const std::function<void(DeviceRank)>& body,
                       const std::function<void(const std::string&)>& thrown) {
    Ranks ranks(static_cast<int>(devices.size()), wishes);
    std::atomic<int> lost{-1};
    // As the library's watch over the peers does: tells every rank of the one that has failed.
    const std::jthread watch([&](const std::stop_token& over) {
        for (bool told = false; !over.stop_requested() && !told;) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            for (int rank = 0; rank < static_cast<int>(devices.size()) && lost < 0; ++rank) {
                if (ranks.at(rank).failure().failed()) lost = rank;
            }
            for (int rank = 0; rank < static_cast<int>(devices.size()) && lost >= 0; ++rank) {
                told = true;
                if (rank == lost) continue;
                ranks.at(rank).failure().fail(
                    {MPIB_ERROR_PEER_LOST, "rank " + std::to_string(lost) + " is lost"});
            }
        }
    });
    ranks.run([&](Ranks::Rank& rank) {
        try {
            const auto queue = must(mpi_bridge::CudaQueue::open(*must(
                mpi_bridge::CudaDevice::get(devices[static_cast<std::size_t>(rank.rank())]))));
            body({rank, *queue, lost});
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
    wishes.timeout = mpi_bridge::no_limit;  // as it is unless a user sets one
    return wishes;
}

}  // namespace mpi_bridge_test
