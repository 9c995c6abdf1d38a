// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

namespace mpi_bridge::torch {

// The order of CUDA streams. Nothing here makes the host wait.

/// The stream that is current for a device.
c10::Stream current_stream(c10::Device device);

/// The cudaStream_t of the stream that is current for a device.
void* current_cuda_stream(c10::Device device);

/// Makes the current stream of its device wait for what this one holds now.
void make_current_wait(c10::Stream stream);

/// Makes this stream wait for what the current one of its device holds now.
void make_wait_for_current(c10::Stream stream);

}  // namespace mpi_bridge::torch
