// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the host and the kernels of kernels.cu share: the argument of every kernel, the list of
// kernels, and how much one warp does. Included by three compilers (the host's, nvcc, NVRTC), so
// nothing here needs a header.
//
// A kernel moves elements between tensors, anywhere in memory, and a bucket, one contiguous array
// of wire elements. Packing encodes (tensor element -> wire element), unpacking decodes.

namespace mpi_bridge::kernels {

// One tensor and where it is in the bucket. Places are counted in elements. Where they are
// multiples of place_multiple and the bucket is aligned to 16 bytes, the bucket's side of every
// access is a vector; all others are right too, but slower.
struct Piece {
    unsigned long long address;  // of the tensor's first element, aligned as its type needs
    unsigned long long place;    // of that element in the bucket
    unsigned long long count;    // elements
};

constexpr unsigned place_multiple = 16;
// Kernel arguments are limited to 4096 bytes on every device; more tensors take more launches.
constexpr unsigned most_pieces = 160;

struct Arguments {
    unsigned long long bucket;    // address of the bucket
    unsigned long long first;     // this launch covers the places from here on,
    unsigned long long elements;  // this many, gaps between pieces included
    double factor;                // every element is multiplied by it: before encoding when
                                  // packing, after decoding when unpacking; 1 changes nothing
    long long divisor;            // what averages of integers are divided by when decoded
    unsigned nan_is_least;        // where a NaN goes in the order of keys: 1 below all, 0 above all
    unsigned pieces;              // used entries of `piece`, ascending by place, at least 1
    Piece piece[most_pieces];
};
static_assert(sizeof(Arguments) <= 4096, "kernel arguments are limited to 4 KiB");

constexpr unsigned warp_lanes = 32;
constexpr unsigned warps_per_block = 8;

// How one warp goes about elements of these sizes: a lane moves `group` elements at a time, so that
// the narrower side is one 16-byte access, and has `unroll` groups in flight: 128 bytes of the
// wider side, but at most 64 elements, for more do not fit a lane's registers. `tile` elements are
// what one warp moves in all.
template <unsigned TensorBytes, unsigned WireBytes>
struct Shape {
    // NOLINTBEGIN(bugprone-branch-clone): equal sizes are not a mistake.
    static constexpr unsigned narrower = TensorBytes < WireBytes ? TensorBytes : WireBytes;
    static constexpr unsigned wider = TensorBytes < WireBytes ? WireBytes : TensorBytes;
    // NOLINTEND(bugprone-branch-clone)
    static constexpr unsigned group = 16 / narrower;
    static constexpr unsigned by_bytes = group * wider < 128 ? 128 / (group * wider) : 1;
    static constexpr unsigned unroll = by_bytes * group > 64 ? 64 / group : by_bytes;
    static constexpr unsigned tile = warp_lanes * group * unroll;
};

}  // namespace mpi_bridge::kernels

// Every codec: X(name, bytes of a tensor element, bytes of a wire element). Each gives two kernels,
// mpib_pack_<name> and mpib_unpack_<name>. kernels.cu says what each encodes.
#define MPI_BRIDGE_CODECS(X) \
    X(copy8, 1, 1)           \
    X(copy16, 2, 2)          \
    X(copy32, 4, 4)          \
    X(copy64, 8, 8)          \
    X(scale_u8, 1, 1)        \
    X(scale_i8, 1, 1)        \
    X(scale_i16, 2, 2)       \
    X(scale_i32, 4, 4)       \
    X(scale_i64, 8, 8)       \
    X(scale_f16, 2, 2)       \
    X(scale_bf16, 2, 2)      \
    X(scale_f32, 4, 4)       \
    X(scale_f64, 8, 8)       \
    X(bool_as_u8, 1, 1)      \
    X(i16_as_i32, 2, 4)      \
    X(u8_as_i64, 1, 8)       \
    X(i8_as_i64, 1, 8)       \
    X(i16_as_i64, 2, 8)      \
    X(i32_as_i64, 4, 8)      \
    X(i64_as_pair, 8, 16)    \
    X(f16_as_key, 2, 4)      \
    X(bf16_as_key, 2, 4)     \
    X(f32_as_key, 4, 4)      \
    X(f64_as_key, 8, 8)
