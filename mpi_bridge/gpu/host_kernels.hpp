// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/codec.hpp"
#include "gpu/kernel_interface.h"

namespace mpi_bridge {

// What the kernel of this codec does, done by the calling thread on host memory: kernels.cu itself,
// compiled for the host. With `lanes` of 1 a warp's elements are walked in order; with 32 they are
// split over lanes as on a GPU, one lane after the other, which tests use.
void run_on_host(Codec codec, Way way, const kernels::Arguments& arguments, unsigned lanes = 1);

}  // namespace mpi_bridge
