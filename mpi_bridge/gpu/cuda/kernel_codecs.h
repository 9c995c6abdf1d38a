// SPDX-License-Identifier: Apache-2.0
#pragma once

// How tensor elements become wire elements and back. Part of kernels.cu, and compiled wherever that
// is.
#include "kernel_interface.h"

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define MPIB_DEVICE __device__ __forceinline__
#define MPIB_UNROLL _Pragma("unroll")
#else
#define MPIB_DEVICE inline
#define MPIB_UNROLL
#endif

namespace mpi_bridge::kernels {
namespace {

using u8 = unsigned char;
using i8 = signed char;
using u16 = unsigned short;
using i16 = short;
using u32 = unsigned int;
using i32 = int;
using u64 = unsigned long long;
using i64 = long long;

// 16-bit floats are storage; a distinct type each.
struct f16 {
    u16 bits;
};
struct bf16 {
    u16 bits;
};
// Two summands of one 64-bit integer: high * 2^32 + low. Sums of up to 2^31 of them do not
// overflow.
struct alignas(16) Pair {
    i64 high;
    i64 low;
};

// ---- Bits of floating-point numbers ------------------------------------------------------------

#if defined(__CUDA_ARCH__)
MPIB_DEVICE u32 bits_of(float value) {
    return __float_as_uint(value);
}
MPIB_DEVICE float float_of(u32 bits) {
    return __uint_as_float(bits);
}
MPIB_DEVICE u64 bits_of(double value) {
    return static_cast<u64>(__double_as_longlong(value));
}
MPIB_DEVICE double double_of(u64 bits) {
    return __longlong_as_double(static_cast<i64>(bits));
}
#else
MPIB_DEVICE u32 bits_of(float value) {
    return __builtin_bit_cast(u32, value);
}
MPIB_DEVICE float float_of(u32 bits) {
    return __builtin_bit_cast(float, bits);
}
MPIB_DEVICE u64 bits_of(double value) {
    return __builtin_bit_cast(u64, value);
}
MPIB_DEVICE double double_of(u64 bits) {
    return __builtin_bit_cast(double, bits);
}
#endif

MPIB_DEVICE float widen(bf16 value) {
    return float_of(static_cast<u32>(value.bits) << 16);
}

// To nearest even; a NaN keeps its upper bits and becomes quiet.
MPIB_DEVICE void narrow(float value, bf16& out) {
    const u32 bits = bits_of(value);
    const u32 rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    const u32 quiet = (bits >> 16) | 0x40U;
    out.bits = static_cast<u16>((bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
}

#if defined(__CUDA_ARCH__)
MPIB_DEVICE float widen(f16 value) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
    return wide;
}
MPIB_DEVICE void narrow(float value, f16& out) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(value));
}
#else
MPIB_DEVICE float widen(f16 value) {
    const u32 sign = static_cast<u32>(value.bits & 0x8000U) << 16;
    const u32 rest = static_cast<u32>(value.bits & 0x7fffU) << 13;
    // Infinity and NaN keep the largest exponent; all others, subnormals too, are right after a
    // multiplication that moves the exponent's bias from 15 to 127.
    if (rest >= 0x0f800000U) return float_of(sign | 0x70000000U | rest);
    return float_of(sign | bits_of(float_of(rest) * 0x1p112F));
}
MPIB_DEVICE void narrow(float value, f16& out) {
    const u32 bits = bits_of(value);
    const u32 sign = (bits >> 16) & 0x8000U;
    const u32 magnitude = bits & 0x7fffffffU;
    u32 result;
    if (magnitude > 0x7f800000U) {
        result = 0x7e00U;  // NaN
    } else if (magnitude >= 0x477ff000U) {
        result = 0x7c00U;  // 65520 and above round to infinity
    } else if (magnitude >= 0x38800000U) {
        const u32 rebased = magnitude - 0x38000000U;
        result = (rebased + 0xfffU + ((rebased >> 13) & 1U)) >> 13;
    } else {
        // Subnormal: adding 0.5 leaves the rounded multiple of 2^-24 in the lowest bits.
        result = bits_of(float_of(magnitude) + 0.5F) - 0x3f000000U;
    }
    out.bits = static_cast<u16>(sign | result);
}
#endif

// ---- Scaling -----------------------------------------------------------------------------------
// 16- and 32-bit floats meet the factor as a 32-bit float and are rounded once; integers meet it as
// a double and are truncated toward zero, to the nearest number of their type, NaN to 0.

MPIB_DEVICE float scaled(float value, double factor) {
    return value * static_cast<float>(factor);
}
MPIB_DEVICE double scaled(double value, double factor) {
    return value * factor;
}
MPIB_DEVICE f16 scaled(f16 value, double factor) {
    f16 out;
    narrow(widen(value) * static_cast<float>(factor), out);
    return out;
}
MPIB_DEVICE bf16 scaled(bf16 value, double factor) {
    bf16 out;
    narrow(widen(value) * static_cast<float>(factor), out);
    return out;
}

template <typename T>
MPIB_DEVICE T truncated(double value, T least, T most) {
    if (value != value) return 0;
    // As a double, the most of 64 bits is rounded up: at that bound the answer is `most` too.
    if (value >= static_cast<double>(most)) return most;
    return value <= static_cast<double>(least) ? least : static_cast<T>(value);
}
MPIB_DEVICE u8 scaled(u8 value, double factor) {
    return truncated<u8>(value * factor, 0, 255);
}
MPIB_DEVICE i8 scaled(i8 value, double factor) {
    return truncated<i8>(value * factor, -128, 127);
}
MPIB_DEVICE i16 scaled(i16 value, double factor) {
    return truncated<i16>(value * factor, -32768, 32767);
}
MPIB_DEVICE i32 scaled(i32 value, double factor) {
    return truncated<i32>(value * factor, -2147483647 - 1, 2147483647);
}
MPIB_DEVICE i64 scaled(i64 value, double factor) {
    return truncated<i64>(static_cast<double>(value) * factor, -9223372036854775807LL - 1,
                          9223372036854775807LL);
}

// A factor of 1 keeps every bit, of 64-bit integers too.
template <typename T>
MPIB_DEVICE T scaled_unless_one(T value, double factor) {
    return factor == 1.0 ? value : scaled(value, factor);
}

// ---- Codecs ------------------------------------------------------------------------------------

// The bits as they are.
template <typename T>
struct Copy {
    static constexpr bool verbatim = true;
    using Tensor = T;
    using Wire = T;
    static MPIB_DEVICE T encode(T value, const Arguments&) { return value; }
    static MPIB_DEVICE T decode(T value, const Arguments&) { return value; }
};

template <typename T>
struct Scale {
    static constexpr bool verbatim = false;
    using Tensor = T;
    using Wire = T;
    static MPIB_DEVICE T encode(T value, const Arguments& a) { return scaled(value, a.factor); }
    static MPIB_DEVICE T decode(T value, const Arguments& a) { return scaled(value, a.factor); }
};

// Truth as 0 or 1, so that minimum and maximum are and and or.
struct Truth {
    static constexpr bool verbatim = false;
    using Tensor = u8;
    using Wire = u8;
    static MPIB_DEVICE u8 encode(u8 value, const Arguments&) { return value != 0 ? 1 : 0; }
    static MPIB_DEVICE u8 decode(u8 value, const Arguments&) { return value; }
};

// 16-bit integers, which NCCL does not know, as 32-bit ones: sums and products agree modulo 2^16.
struct ShortInteger {
    static constexpr bool verbatim = false;
    using Tensor = i16;
    using Wire = i32;
    static MPIB_DEVICE i32 encode(i16 value, const Arguments& a) {
        return scaled_unless_one(value, a.factor);
    }
    static MPIB_DEVICE i16 decode(i32 value, const Arguments& a) {
        return scaled_unless_one(static_cast<i16>(static_cast<u16>(static_cast<u32>(value))),
                                 a.factor);
    }
};

// Averages of integers: the exact sum, in 64 bits, divided when decoded; truncated toward zero.
template <typename T>
struct Average {
    static constexpr bool verbatim = false;
    using Tensor = T;
    using Wire = i64;
    static MPIB_DEVICE i64 encode(T value, const Arguments& a) {
        return scaled_unless_one(value, a.factor);
    }
    static MPIB_DEVICE T decode(i64 sum, const Arguments& a) {
        return scaled_unless_one(static_cast<T>(sum / a.divisor), a.factor);
    }
};

// The same for 64-bit integers, whose sum needs more than 64 bits.
struct WideAverage {
    static constexpr bool verbatim = false;
    using Tensor = i64;
    using Wire = Pair;
    static MPIB_DEVICE Pair encode(i64 value, const Arguments& a) {
        const i64 number = scaled_unless_one(value, a.factor);
        return {number >> 32, number & 0xffffffffLL};
    }
    static MPIB_DEVICE i64 decode(Pair sum, const Arguments& a) {
        // Division in base 2^32, toward minus infinity first.
        i64 upper = sum.high / a.divisor;
        i64 rest = sum.high % a.divisor;
        if (rest < 0) {
            rest += a.divisor;
            --upper;
        }
        const u64 lower = (static_cast<u64>(rest) << 32) + static_cast<u64>(sum.low);
        const u64 quotient = lower / static_cast<u64>(a.divisor);
        const bool exact = lower % static_cast<u64>(a.divisor) == 0;
        const i64 floor = static_cast<i64>((static_cast<u64>(upper) << 32) + quotient);
        return scaled_unless_one(floor < 0 && !exact ? floor + 1 : floor, a.factor);
    }
};

// Integers in the order of the floating-point numbers, for minimum and maximum: NCCL's own drop a
// NaN, ours must let it win, so it becomes the least or the greatest key.
template <typename T>
struct Key32 {
    static constexpr bool verbatim = false;
    using Tensor = T;
    using Wire = i32;
    static MPIB_DEVICE float wide(float value) { return value; }
    static MPIB_DEVICE float wide(f16 value) { return widen(value); }
    static MPIB_DEVICE float wide(bf16 value) { return widen(value); }
    static MPIB_DEVICE void short_of(float value, float& out) { out = value; }
    static MPIB_DEVICE void short_of(float value, f16& out) { narrow(value, out); }
    static MPIB_DEVICE void short_of(float value, bf16& out) { narrow(value, out); }

    static MPIB_DEVICE i32 encode(T value, const Arguments& a) {
        const float number = wide(scaled_unless_one(value, a.factor));
        if (number != number) return a.nan_is_least != 0 ? -2147483647 - 1 : 2147483647;
        const u32 bits = bits_of(number);
        return static_cast<i32>(bits >> 31 != 0 ? bits ^ 0x7fffffffU : bits);
    }
    static MPIB_DEVICE T decode(i32 key, const Arguments& a) {
        u32 bits = static_cast<u32>(key);
        if (key < 0) bits ^= 0x7fffffffU;
        T out;
        short_of(float_of((bits & 0x7fffffffU) > 0x7f800000U ? 0x7fc00000U : bits), out);
        return scaled_unless_one(out, a.factor);
    }
};

struct Key64 {
    static constexpr bool verbatim = false;
    using Tensor = double;
    using Wire = i64;
    static MPIB_DEVICE i64 encode(double value, const Arguments& a) {
        const double number = scaled_unless_one(value, a.factor);
        if (number != number) {
            return a.nan_is_least != 0 ? -9223372036854775807LL - 1 : 9223372036854775807LL;
        }
        const u64 bits = bits_of(number);
        return static_cast<i64>(bits >> 63 != 0 ? bits ^ 0x7fffffffffffffffULL : bits);
    }
    static MPIB_DEVICE double decode(i64 key, const Arguments& a) {
        u64 bits = static_cast<u64>(key);
        if (key < 0) bits ^= 0x7fffffffffffffffULL;
        const bool nan = (bits & 0x7fffffffffffffffULL) > 0x7ff0000000000000ULL;
        return scaled_unless_one(double_of(nan ? 0x7ff8000000000000ULL : bits), a.factor);
    }
};

using Codec_copy8 = Copy<u8>;
using Codec_copy16 = Copy<u16>;
using Codec_copy32 = Copy<u32>;
using Codec_copy64 = Copy<u64>;
using Codec_scale_u8 = Scale<u8>;
using Codec_scale_i8 = Scale<i8>;
using Codec_scale_i16 = Scale<i16>;
using Codec_scale_i32 = Scale<i32>;
using Codec_scale_i64 = Scale<i64>;
using Codec_scale_f16 = Scale<f16>;
using Codec_scale_bf16 = Scale<bf16>;
using Codec_scale_f32 = Scale<float>;
using Codec_scale_f64 = Scale<double>;
using Codec_bool_as_u8 = Truth;
using Codec_i16_as_i32 = ShortInteger;
using Codec_u8_as_i64 = Average<u8>;
using Codec_i8_as_i64 = Average<i8>;
using Codec_i16_as_i64 = Average<i16>;
using Codec_i32_as_i64 = Average<i32>;
using Codec_i64_as_pair = WideAverage;
using Codec_f16_as_key = Key32<f16>;
using Codec_bf16_as_key = Key32<bf16>;
using Codec_f32_as_key = Key32<float>;
using Codec_f64_as_key = Key64;

#define MPIB_CHECK_SIZES(name, tensor_bytes, wire_bytes)            \
    static_assert(sizeof(Codec_##name::Tensor) == (tensor_bytes) && \
                      sizeof(Codec_##name::Wire) == (wire_bytes),   \
                  "kernel_interface.h states other sizes");
MPI_BRIDGE_CODECS(MPIB_CHECK_SIZES)

}  // namespace
}  // namespace mpi_bridge::kernels
