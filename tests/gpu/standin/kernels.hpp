// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "gpu/cuda/kernel_interface.h"

namespace standin {

struct KernelEntry {
    std::string_view codec;
    std::string_view name;
    void (*run)(mpi_bridge::kernels::Arguments);
    unsigned tensor_bytes;
    unsigned wire_bytes;
};

// All kernels of kernels.cu.
std::span<const KernelEntry> kernels();

// Runs every thread of a launch, with addresses that this process can use.
void run_kernel(const KernelEntry& kernel, unsigned blocks, unsigned threads,
                const mpi_bridge::kernels::Arguments& arguments);

// What the stand-in's NVRTC makes of one codec: a mark, the codec's name and the kernels' names,
// each ended by a zero.
constexpr std::string_view image_mark{
    "\x7f"
    "ELF of the stand-in"};

}  // namespace standin
