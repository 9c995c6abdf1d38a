// SPDX-License-Identifier: Apache-2.0
//
// What the kernels are written in: N numbers of one type as one value. N = 1 is the plain number,
// which the same expressions serve: the last items of a range are computed by the formulas of all
// others. Included by kernels.inl, once per instruction set.

// 16-bit floats are storage only: a distinct type each, so that templates can tell them apart.
struct Half {
    std::uint16_t bits;
};
struct Brain {
    std::uint16_t bits;
};

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

// An element as its accumulator. Every type but the 16-bit floats converts by value.
template <typename Element, typename Accumulator, std::size_t N>
struct Convert {
    static Lanes<Accumulator, N> widen(const unsigned char* at) {
        return convert<Accumulator, N>(read<Element, N>(at));
    }
    static void narrow(unsigned char* at, Lanes<Accumulator, N> value) {
        write(at, convert<Element, N>(value));
    }
};

template <std::size_t N>
struct Convert<Brain, float, N> {
    static Lanes<float, N> widen(const unsigned char* at) {
        return same_bits<float, N>(convert<std::uint32_t, N>(read<std::uint16_t, N>(at)) << 16);
    }
    static void narrow(unsigned char* at, Lanes<float, N> value) {
        const auto bits = same_bits<std::uint32_t, N>(value);
        const auto rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
        // Rounding must not carry a NaN into infinity: keep its upper half and make it quiet.
        const auto quiet = (bits >> 16) | 0x40U;
        const auto is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
        write(at, convert<std::uint16_t, N>(is_nan ? quiet : rounded));
    }
};

// No arithmetic here has a subnormal operand that matters, so that a thread which flushes
// subnormals to zero gets the same bits.
template <std::size_t N>
struct Convert<Half, float, N> {
    static Lanes<float, N> widen(const unsigned char* at) {
        const auto bits = convert<std::uint32_t, N>(read<std::uint16_t, N>(at));
        const auto sign = (bits & 0x8000U) << 16;
        const auto exponent = (bits >> 10) & 0x1fU;
        const auto fraction = bits & 0x3ffU;
        const auto normal = ((exponent + 112U) << 23) | (fraction << 13);
        // Zero or subnormal: fraction * 2^-24 is exact in a float.
        const auto small = convert<float, N>(same_bits<std::int32_t, N>(fraction)) * 0x1p-24F;
        const auto infinite = (fraction << 13) | 0x7f800000U;
        const auto special = fraction == 0U ? infinite : infinite | 0x400000U;
        const auto finite = exponent == 0U ? same_bits<std::uint32_t, N>(small) : normal;
        return same_bits<float, N>(sign | (exponent == 0x1fU ? special : finite));
    }
    static void narrow(unsigned char* at, Lanes<float, N> value) {
        const auto bits = same_bits<std::uint32_t, N>(value);
        const auto sign = (bits >> 16) & 0x8000U;
        const auto magnitude = bits & 0x7fffffffU;
        const auto rebased = magnitude - (112U << 23);
        const auto normal = (rebased + 0xfffU + ((rebased >> 13) & 1U)) >> 13;
        // Below 2^-14: adding 0.5 aligns the result's last bit, 2^-24, with the float's last bit,
        // and the addition itself rounds to nearest even.
        const auto aligned = same_bits<float, N>(magnitude) + 0.5F;
        const auto small = same_bits<std::uint32_t, N>(aligned) - 0x3f000000U;
        const auto finite = magnitude >= 0x38800000U ? normal : small;
        // 65520 and above round to infinity.
        const auto number = magnitude >= 0x477ff000U ? 0U * bits + 0x7c00U : finite;
        const auto nan = ((magnitude >> 13) & 0x3ffU) | 0x7e00U;
        const auto result = magnitude > 0x7f800000U ? nan : number;
        write(at, convert<std::uint16_t, N>(sign | result));
    }
};

#ifdef __F16C__
template <>
struct Convert<Half, float, 8> {
    static Lanes<float, 8> widen(const unsigned char* at) {
        return _mm256_cvtph_ps(read<long long, 2>(at));
    }
    static void narrow(unsigned char* at, Lanes<float, 8> value) {
        write(at, _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
};
#endif
