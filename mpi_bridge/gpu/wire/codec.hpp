// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/cuda/kernel_interface.h"

namespace mpi_bridge {

// How tensor elements become wire elements and back; kernels.cu says what each does.
enum class Codec {
#define MPIB_ENUMERATOR(name, tensor_bytes, wire_bytes) name,
    MPI_BRIDGE_CODECS(MPIB_ENUMERATOR)
#undef MPIB_ENUMERATOR
};
constexpr int codec_count = static_cast<int>(Codec::f64_as_key) + 1;  // the last codec

enum class Way { pack, unpack };

struct CodecShape {
    const char* name;    // as in kernel_interface.h
    const char* packer;  // the names of the kernels
    const char* unpacker;
    unsigned tensor_bytes;  // of one element
    unsigned wire_bytes;
    unsigned tile;  // number of elements that one warp moves
};

[[nodiscard]] constexpr CodecShape shape_of(Codec codec) {
    constexpr CodecShape shapes[] = {
#define MPIB_SHAPE(name, tensor_bytes, wire_bytes)           \
    {#name,        "mpib_pack_" #name, "mpib_unpack_" #name, \
     tensor_bytes, wire_bytes,         kernels::Shape<tensor_bytes, wire_bytes>::tile},
        MPI_BRIDGE_CODECS(MPIB_SHAPE)
#undef MPIB_SHAPE
    };
    return shapes[static_cast<int>(codec)];
}

// Whether tensors may be sent and received as they are.
[[nodiscard]] constexpr bool is_copy(Codec codec) {
    return codec <= Codec::copy64;
}

// The number of blocks of a launch over that many places.
[[nodiscard]] constexpr unsigned long long blocks_for(Codec codec, unsigned long long elements) {
    const unsigned long long tile = shape_of(codec).tile;
    const unsigned long long per_block = tile * kernels::warps_per_block;
    return elements / per_block + (elements % per_block != 0 ? 1 : 0);
}

}  // namespace mpi_bridge
