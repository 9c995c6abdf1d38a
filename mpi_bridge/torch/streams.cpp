// SPDX-License-Identifier: Apache-2.0
#include "streams.hpp"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#ifdef MPI_BRIDGE_TORCH_CUDA
// Of torch's own C interface, which needs no header of CUDA.
extern "C" int32_t aoti_torch_get_current_cuda_stream(int32_t device_index, void** ret_stream);
#endif

namespace mpi_bridge::torch {

namespace {

void make_wait(c10::Stream waiting, c10::Stream other) {
    if (waiting == other) {
        return;
    }
    c10::Event event(other.device_type());
    event.record(other);
    event.block(waiting);
}

}  // namespace

c10::Stream current_stream(c10::Device device) {
    return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

void* current_cuda_stream([[maybe_unused]] c10::Device device) {
#ifdef MPI_BRIDGE_TORCH_CUDA
    void* stream = nullptr;
    TORCH_CHECK(aoti_torch_get_current_cuda_stream(device.index(), &stream) == 0,
                "torch does not tell which CUDA stream is current");
    return stream;
#else
    TORCH_CHECK(false, "this torch was built without CUDA");
#endif
}

void make_current_wait(c10::Stream stream) {
    make_wait(current_stream(stream.device()), stream);
}

void make_wait_for_current(c10::Stream stream) {
    make_wait(stream, current_stream(stream.device()));
}

}  // namespace mpi_bridge::torch
