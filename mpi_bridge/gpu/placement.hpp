// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>
#include <string>

#include "core/failure.hpp"
#include "gpu/device.hpp"

namespace mpi_bridge {

// What each rank tells all others before they connect. Plain bytes, zero where unused.
struct DeviceCard {
    std::array<char, 40> kernel{};  // boot id of the running kernel, which tells hosts apart
    std::array<char, 32> bus_id{};  // PCI address of the GPU
    std::array<char, 16> uuid{};    // of the GPU, or of the instance of it
    int has_device = 0;
    int nccl_version = 0;             // 0 where NCCL cannot be used
    int shared_gpu_enabled = 0;       // NCCL_MULTI_RANK_GPU_ENABLE=1 is set
    int wanted_path = 0;              // DevicePath
    std::array<char, 512> no_nccl{};  // why it cannot, as text, cut where it is too long
    std::array<char, 512> fault{};    // why this rank cannot take part at all; likewise
};

struct Placement {
    DevicePath path = DevicePath::staged;  // nccl or staged
    std::string why;                       // for the staged path
};

// The same answer on every rank. A path that was asked for but cannot serve, or that the ranks
// disagree about, is a failure that names the ranks; so is a rank with a fault.
[[nodiscard]] Outcome<Placement> place(std::span<const DeviceCard> cards);

}  // namespace mpi_bridge
