// SPDX-License-Identifier: Apache-2.0
#include "gpu/staged/host_kernels.hpp"

#include "gpu/cuda/kernels.cu"

namespace mpi_bridge {
namespace {

using kernels::Place;

template <typename Codec>
void run(Way way, const kernels::Arguments& arguments, unsigned lanes) {
    constexpr auto tile =
        kernels::Shape<sizeof(typename Codec::Tensor), sizeof(typename Codec::Wire)>::tile;
    const auto tiles = arguments.elements / tile + (arguments.elements % tile != 0 ? 1 : 0);
    for (unsigned long long i = 0; i < tiles; ++i) {
        for (unsigned lane = 0; lane < lanes; ++lane) {
            const Place place{i, lane, lanes};
            if (way == Way::pack) {
                kernels::transfer<Codec, kernels::Packing>(place, arguments);
            } else {
                kernels::transfer<Codec, kernels::Unpacking>(place, arguments);
            }
        }
    }
}

}  // namespace

void run_on_host(Codec codec, Way way, const kernels::Arguments& arguments, unsigned lanes) {
    switch (codec) {
#define MPIB_CASE(name, tensor_bytes, wire_bytes)          \
    case Codec::name:                                      \
        run<kernels::Codec_##name>(way, arguments, lanes); \
        break;
        MPI_BRIDGE_CODECS(MPIB_CASE)
#undef MPIB_CASE
    }
}

}  // namespace mpi_bridge
