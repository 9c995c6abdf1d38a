// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>
#include <string>

#include "core/failure.hpp"
#include "gpu/device_group.hpp"

namespace mpi_bridge {

// What each rank tells all others before they connect. Plain bytes; unused ones are zero.
struct DeviceCard {
    // What tells hosts apart, as for NCCL: NCCL_HOSTID, else the boot id of the running kernel.
    std::array<char, 128> host{};
    std::array<char, 32> bus_id{};  // PCI address of the GPU
    std::array<char, 16> uuid{};    // of the GPU, or of its instance
    int has_device = 0;
    int nccl_version = 0;             // 0 if NCCL cannot be used
    int shared_gpu_enabled = 0;       // NCCL_MULTI_RANK_GPU_ENABLE=1 is set
    int wanted_path = 0;              // DevicePath
    std::array<char, 512> no_nccl{};  // why NCCL cannot be used, cut if it is too long
    std::array<char, 512> fault{};    // why this rank cannot take part at all, cut likewise
};

struct Placement {
    DevicePath path = DevicePath::staged;  // nccl or staged
    std::string why;                       // the reason for the staged path
};

// Gives the same answer on every rank. If a requested path cannot serve the ranks, or the ranks
// request different paths, the result is a failure that names the ranks; so is a rank with a fault.
[[nodiscard]] Outcome<Placement> place(std::span<const DeviceCard> cards);

}  // namespace mpi_bridge
