// SPDX-License-Identifier: Apache-2.0
//
// kernels.cu, compiled for the host as NVRTC would compile it for a device: every thread of a
// launch runs the kernel once.
struct KernelIndex {
    unsigned x = 0;
    unsigned y = 0;
    unsigned z = 0;
};
static thread_local KernelIndex blockIdx;
static thread_local KernelIndex threadIdx;

// NVRTC defines it, and kernels.cu looks at it.
#define __CUDACC_RTC__  // NOLINT(bugprone-reserved-identifier)
#define __device__
#define __global__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(threads)
#include "gpu/cuda/kernels.cu"

// Now the stand-in's own.
#include "kernels.hpp"

namespace standin {
namespace {

using mpi_bridge::kernels::Arguments;

const KernelEntry entries[] = {
#define STANDIN_ENTRIES(name, tensor_bytes, wire_bytes)                      \
    {#name, "mpib_pack_" #name, mpib_pack_##name, tensor_bytes, wire_bytes}, \
        {#name, "mpib_unpack_" #name, mpib_unpack_##name, tensor_bytes, wire_bytes},
    MPI_BRIDGE_CODECS(STANDIN_ENTRIES)
#undef STANDIN_ENTRIES
};

}  // namespace

std::span<const KernelEntry> kernels() {
    return entries;
}

void run_kernel(const KernelEntry& kernel, unsigned blocks, unsigned threads,
                const Arguments& arguments) {
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
        for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x)
            kernel.run(arguments);
    }
}

}  // namespace standin
