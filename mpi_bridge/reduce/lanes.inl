// SPDX-License-Identifier: Apache-2.0
//
// What the kernels are written in: N numbers of one type as one value. N = 1 is the plain number,
// which the same expressions serve: the last items of a range are computed by the formulas of all
// others. Included by kernels.inl, once per instruction set.

using datatype::Brain;
using datatype::Half;
using datatype::Truth;

template <typename T, std::size_t N>
struct LanesOf {
    typedef T Type __attribute__((vector_size(N * sizeof(T))));
};
template <typename T>
struct LanesOf<T, 1> {
    using Type = T;
};
template <typename T, std::size_t N>
using Lanes = typename LanesOf<T, N>::Type;

// One load or store; no alignment is assumed.
template <typename T, std::size_t N>
inline Lanes<T, N> read(const unsigned char* at) {
    Lanes<T, N> value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}

template <typename Value>
inline void write(unsigned char* at, Value value) {
    __builtin_memcpy(at, &value, sizeof value);
}

template <typename To, std::size_t N, typename Value>
inline Lanes<To, N> convert(Value value) {
    if constexpr (N == 1) {
        return static_cast<To>(value);
    } else {
        return __builtin_convertvector(value, Lanes<To, N>);
    }
}

template <typename To, std::size_t N, typename Value>
inline Lanes<To, N> same_bits(Value value) {
    using Out = Lanes<To, N>;
    return __builtin_bit_cast(Out, value);
}

// One NaN for all: the bits of a computed NaN depend on the order in which a compiler takes the
// operands of a sum, so results would differ between instruction sets, and between ranks.
template <typename T, std::size_t N>
inline Lanes<T, N> canonical(Lanes<T, N> value) {
    const Lanes<T, N> nan = Lanes<T, N>{} + static_cast<T>(__builtin_nanf(""));
    return value == value ? value : nan;
}

// Elements as their accumulators and back. Plain numbers convert by value.
template <typename Element, typename Accumulator, std::size_t N>
struct Convert {
    static Lanes<Accumulator, N> widen(const unsigned char* at) {
        return convert<Accumulator, N>(read<Element, N>(at));
    }
    static void narrow(unsigned char* at, Lanes<Accumulator, N> value) {
        if constexpr (std::is_floating_point_v<Element>) value = canonical<Element, N>(value);
        write(at, convert<Element, N>(value));
    }
};

// The bits of a float whose upper half is the nearest Brain; the lower half is arbitrary. Rounded
// by integers: AVX-512's own conversion, vcvtneps2bf16, takes subnormals for zero, so its bits
// would differ from those of other processors.
template <std::size_t N>
inline Lanes<std::uint32_t, N> round_to_upper_half(Lanes<float, N> value) {
    const auto bits = same_bits<std::uint32_t, N>(canonical<float, N>(value));
    return bits + 0x7fffU + ((bits >> 16) & 1U);
}

template <std::size_t N>
struct Convert<Brain, float, N> {
    static Lanes<float, N> widen(const unsigned char* at) {
        return same_bits<float, N>(convert<std::uint32_t, N>(read<std::uint16_t, N>(at)) << 16);
    }
    static void narrow(unsigned char* at, Lanes<float, N> value) {
        write(at, convert<std::uint16_t, N>(round_to_upper_half<N>(value) >> 16));
    }
};

// Twice N Brains, apart by the halves of 32-bit numbers: nothing moves between lanes, which takes
// half the instructions of Convert, but the order of the floats is not that of memory.
template <std::size_t N>
struct BrainPairs {
    Lanes<float, N> lower;
    Lanes<float, N> upper;

    static BrainPairs widen(const unsigned char* at) {
        const auto bits = read<std::uint32_t, N>(at);
        return {same_bits<float, N>(bits << 16), same_bits<float, N>(bits & 0xffff0000U)};
    }
    static void narrow(unsigned char* at, const BrainPairs& value) {
        write(at, (round_to_upper_half<N>(value.lower) >> 16) |
                      (round_to_upper_half<N>(value.upper) & 0xffff0000U));
    }
};

// Compared as signed numbers, since most instruction sets compare no others. No arithmetic here has
// a subnormal operand or result that matters, so a thread which flushes subnormals to zero gets the
// same bits.
template <std::size_t N>
struct Convert<Half, float, N> {
    static Lanes<float, N> widen(const unsigned char* at) {
        const auto bits = convert<std::int32_t, N>(read<std::uint16_t, N>(at));
        const auto magnitude = bits & 0x7fff;
        const auto sign = (bits ^ magnitude) << 16;
        const auto rebased = (magnitude << 13) + (112 << 23);
        // Zero or subnormal: magnitude * 2^-24 is exact in a float.
        const auto small = same_bits<std::int32_t, N>(convert<float, N>(magnitude) * 0x1p-24F);
        // Infinity or NaN: the largest exponent.
        const auto finite = magnitude < 0x400 ? small : rebased;
        const auto wide = magnitude < 0x7c00 ? finite : rebased + (112 << 23);
        return same_bits<float, N>(sign | wide);
    }
    static void narrow(unsigned char* at, Lanes<float, N> value) {
        const auto bits = same_bits<std::int32_t, N>(canonical<float, N>(value));
        const auto magnitude = bits & 0x7fffffff;
        const auto sign = ((bits ^ magnitude) >> 16) & 0x8000;
        const auto rebased = magnitude - (112 << 23);
        const auto normal = (rebased + 0xfff + ((rebased >> 13) & 1)) >> 13;
        // Below 2^-14: adding 0.5 aligns the result's last bit, 2^-24, with the float's last bit,
        // and the addition itself rounds to nearest even.
        const auto aligned = same_bits<float, N>(magnitude) + 0.5F;
        const auto small = same_bits<std::int32_t, N>(aligned) - 0x3f000000;
        const auto finite = magnitude < 0x38800000 ? small : normal;
        // 65520 and above round to infinity.
        const auto infinity = (magnitude & 0) + 0x7c00;
        const auto number = magnitude < 0x477ff000 ? finite : infinity;
        const auto nan = (magnitude & 0) + 0x7e00;
        const auto result = magnitude > 0x7f800000 ? nan : number;
        write(at, convert<std::uint16_t, N>(sign | result));
    }
};

// The processor's own conversion, which has the bits of the formulas above. The intrinsics may be
// macros, whose arguments must not have commas of their own.
#ifdef __F16C__
constexpr int to_nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

template <>
struct Convert<Half, float, 1> {
    static float widen(const unsigned char* at) { return _cvtsh_ss(read<std::uint16_t, 1>(at)); }
    static void narrow(unsigned char* at, float value) {
        const float one = canonical<float, 1>(value);
        write(at, _cvtss_sh(one, to_nearest));
    }
};
template <>
struct Convert<Half, float, 8> {
    static Lanes<float, 8> widen(const unsigned char* at) {
        return _mm256_cvtph_ps(read<long long, 2>(at));
    }
    static void narrow(unsigned char* at, Lanes<float, 8> value) {
        const Lanes<float, 8> all = canonical<float, 8>(value);
        write(at, _mm256_cvtps_ph(all, to_nearest));
    }
};
#endif
#ifdef __AVX512F__
template <>
struct Convert<Half, float, 16> {
    static Lanes<float, 16> widen(const unsigned char* at) {
        return _mm512_cvtph_ps(read<long long, 4>(at));
    }
    static void narrow(unsigned char* at, Lanes<float, 16> value) {
        const Lanes<float, 16> all = canonical<float, 16>(value);
        write(at, _mm512_cvtps_ph(all, to_nearest));
    }
};
#endif

template <std::size_t N>
struct Convert<Truth, std::uint8_t, N> {
    static Lanes<std::uint8_t, N> widen(const unsigned char* at) {
        const auto bytes = read<std::uint8_t, N>(at);
        return convert<std::uint8_t, N>((bytes != 0) & 1);
    }
    static void narrow(unsigned char* at, Lanes<std::uint8_t, N> value) { write(at, value); }
};
