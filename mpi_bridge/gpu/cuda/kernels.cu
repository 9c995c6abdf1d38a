// SPDX-License-Identifier: Apache-2.0
//
// Packs and unpacks many tensors in one launch, with scaling and conversion on the way, so that a
// bucket's elements are read and written once on each side of a collective.
//
// This file is compiled in three ways: by nvcc into the library if a CUDA toolkit is found, by
// NVRTC at first use otherwise, and by the host's compiler (host_kernels.cpp) for tensors in host
// memory. Nothing here waits for another thread, so the lanes may run in any order.
//
// The work is split over the bucket, not over the tensors: each warp moves one tile of consecutive
// places, finds the first tensor in it by bisection and continues from there. So a launch is
// balanced for any sizes of tensors, and many small tensors share a warp.
#include "kernel_codecs.h"
#include "kernel_interface.h"

namespace mpi_bridge::kernels {
namespace {

// ---- Moving ------------------------------------------------------------------------------------

// The tile of this warp, and the lane in it.
struct Place {
    u64 tile;
    u32 lane;
    u32 lanes;
};

template <typename T, unsigned Count>
struct alignas(16) Group {
    T element[Count];
};
// Elements that are moved verbatim stay in whole registers.
struct alignas(16) Words {
    u32 word[4];
};
template <bool Verbatim, typename T, unsigned Count>
struct GroupOf {
    using Type = Group<T, Count>;
};
template <typename T, unsigned Count>
struct GroupOf<true, T, Count> {
    using Type = Words;
};

template <typename T>
MPIB_DEVICE T* in_memory(u64 address) {
#if defined(__CUDA_ARCH__)
    // Tells the compiler that this is neither shared nor local memory, which loads would otherwise
    // have to check.
    return static_cast<T*>(__cvta_global_to_generic(address));
#else
    return reinterpret_cast<T*>(address);
#endif
}

struct Packing {
    template <typename Codec>
    using Source = typename Codec::Tensor;
    template <typename Codec>
    using Target = typename Codec::Wire;
    template <typename Codec>
    static MPIB_DEVICE typename Codec::Wire converted(typename Codec::Tensor value,
                                                      const Arguments& a) {
        return Codec::encode(value, a);
    }
};

struct Unpacking {
    template <typename Codec>
    using Source = typename Codec::Wire;
    template <typename Codec>
    using Target = typename Codec::Tensor;
    template <typename Codec>
    static MPIB_DEVICE typename Codec::Tensor converted(typename Codec::Wire value,
                                                        const Arguments& a) {
        return Codec::decode(value, a);
    }
};

template <typename T>
MPIB_DEVICE u64 misaligned(const T* address) {
    return reinterpret_cast<u64>(address) % 16;
}

template <typename Codec, typename Way, u32 Count, typename TargetGroup, typename SourceGroup>
MPIB_DEVICE void store(TargetGroup& target, const SourceGroup& source, const Arguments& a) {
    if constexpr (Codec::verbatim) {
        target = source;
    } else {
        TargetGroup converted;
        MPIB_UNROLL
        for (u32 i = 0; i < Count; ++i) {
            converted.element[i] = Way::template converted<Codec>(source.element[i], a);
        }
        target = converted;
    }
}

// Moves `count` elements with all lanes of one warp. If there is an element at which both sides are
// aligned to 16 bytes, the elements before it are moved one by one, then whole groups, and then the
// rest one by one. Otherwise all are moved one by one, still side by side by neighbouring lanes.
template <typename Codec, typename Way>
MPIB_DEVICE void move(typename Way::template Target<Codec>* target,
                      const typename Way::template Source<Codec>* source, u64 count,
                      const Place& place, const Arguments& a) {
    using Source = typename Way::template Source<Codec>;
    using Target = typename Way::template Target<Codec>;
    constexpr u32 group = Shape<sizeof(Source), sizeof(Target)>::group;
    constexpr u32 unroll = Shape<sizeof(Source), sizeof(Target)>::unroll;
    using SourceGroup = typename GroupOf<Codec::verbatim, Source, group>::Type;
    using TargetGroup = typename GroupOf<Codec::verbatim, Target, group>::Type;

    // The side with the narrower elements needs the longer head.
    u64 head = sizeof(Source) < sizeof(Target) ? (16 - misaligned(source)) % 16 / sizeof(Source)
                                               : (16 - misaligned(target)) % 16 / sizeof(Target);
    if (head > count) head = count;
    u64 groups = (count - head) / group;
    if (misaligned(source + head) != 0 || misaligned(target + head) != 0) groups = 0;

    const auto* from = reinterpret_cast<const SourceGroup*>(source + head);
    auto* to = reinterpret_cast<TargetGroup*>(target + head);
    for (u64 at = place.lane; at < groups; at += u64{place.lanes} * unroll) {
        SourceGroup loaded[unroll] = {};
        MPIB_UNROLL
        for (u32 i = 0; i < unroll; ++i) {
            if (at + u64{i} * place.lanes < groups) loaded[i] = from[at + u64{i} * place.lanes];
        }
        MPIB_UNROLL
        for (u32 i = 0; i < unroll; ++i) {
            if (at + u64{i} * place.lanes < groups) {
                store<Codec, Way, group>(to[at + u64{i} * place.lanes], loaded[i], a);
            }
        }
    }

    const u64 done = groups == 0 ? 0 : head;
    for (u64 at = place.lane; at < done; at += place.lanes) {
        target[at] = Way::template converted<Codec>(source[at], a);
    }
    for (u64 at = done + groups * group + place.lane; at < count; at += place.lanes) {
        target[at] = Way::template converted<Codec>(source[at], a);
    }
}

template <typename Codec>
MPIB_DEVICE void move_piece(Packing, u64 tensor, u64 wire, u64 count, const Place& place,
                            const Arguments& a) {
    move<Codec, Packing>(in_memory<typename Codec::Wire>(wire),
                         in_memory<const typename Codec::Tensor>(tensor), count, place, a);
}

template <typename Codec>
MPIB_DEVICE void move_piece(Unpacking, u64 tensor, u64 wire, u64 count, const Place& place,
                            const Arguments& a) {
    move<Codec, Unpacking>(in_memory<typename Codec::Tensor>(tensor),
                           in_memory<const typename Codec::Wire>(wire), count, place, a);
}

template <typename Codec, typename Way>
MPIB_DEVICE void transfer(const Place& place, const Arguments& a) {
    using Tensor = typename Codec::Tensor;
    using Wire = typename Codec::Wire;
    constexpr u64 tile = Shape<sizeof(Tensor), sizeof(Wire)>::tile;
    if (place.tile * tile >= a.elements) return;
    const u64 begin = a.first + place.tile * tile;
    const u64 limit = a.first + a.elements;
    const u64 end = begin + tile < limit ? begin + tile : limit;

    // Find the last piece that begins at or before `begin`, or the first piece if there is none.
    u32 index = 0;
    for (u32 beyond = a.pieces; beyond - index > 1;) {
        const u32 middle = index + (beyond - index) / 2;
        if (a.piece[middle].place <= begin) {
            index = middle;
        } else {
            beyond = middle;
        }
    }
    for (; index < a.pieces && a.piece[index].place < end; ++index) {
        const u64 start = a.piece[index].place;
        const u64 stop = start + a.piece[index].count;
        const u64 from = start < begin ? begin : start;
        const u64 to = stop < end ? stop : end;
        if (from < to) {
            move_piece<Codec>(Way(), a.piece[index].address + (from - start) * sizeof(Tensor),
                              a.bucket + from * sizeof(Wire), to - from, place, a);
        }
    }
}

}  // namespace
}  // namespace mpi_bridge::kernels

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
namespace mpi_bridge::kernels {
namespace {
MPIB_DEVICE Place here() {
    return {u64{blockIdx.x} * warps_per_block + threadIdx.x / warp_lanes, threadIdx.x % warp_lanes,
            warp_lanes};
}
}  // namespace
}  // namespace mpi_bridge::kernels

#define MPIB_BLOCK \
    __launch_bounds__(mpi_bridge::kernels::warp_lanes* mpi_bridge::kernels::warps_per_block)
#define MPIB_ARGUMENTS const __grid_constant__ mpi_bridge::kernels::Arguments arguments
#define MPIB_KERNELS(name)                                                     \
    extern "C" __global__ void MPIB_BLOCK mpib_pack_##name(MPIB_ARGUMENTS) {   \
        using namespace mpi_bridge::kernels;                                   \
        transfer<Codec_##name, Packing>(here(), arguments);                    \
    }                                                                          \
    extern "C" __global__ void MPIB_BLOCK mpib_unpack_##name(MPIB_ARGUMENTS) { \
        using namespace mpi_bridge::kernels;                                   \
        transfer<Codec_##name, Unpacking>(here(), arguments);                  \
    }
#define MPIB_EVERY_KERNEL(name, tensor_bytes, wire_bytes) MPIB_KERNELS(name)

#if defined(MPIB_ONLY_CODEC)
// Compiling two kernels at first use takes a tenth of the time needed for all of them.
#define MPIB_THE_KERNELS(name) MPIB_KERNELS(name)
MPIB_THE_KERNELS(MPIB_ONLY_CODEC)
#else
MPI_BRIDGE_CODECS(MPIB_EVERY_KERNEL)
#endif
#endif
