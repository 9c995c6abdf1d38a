// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/cuda/kernel_interface.h"
#include "gpu/wire/codec.hpp"

namespace mpi_bridge {

// Does on host memory, in the calling thread, what the kernel of this codec does: it is kernels.cu
// itself, compiled for the host. With `lanes` of 1 a warp's elements are processed in order. With
// 32 they are split over lanes as on a GPU, and one lane runs after the other; tests use this.
void run_on_host(Codec codec, Way way, const kernels::Arguments& arguments, unsigned lanes = 1);

}  // namespace mpi_bridge
