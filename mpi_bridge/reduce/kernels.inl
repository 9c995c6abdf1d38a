// SPDX-License-Identifier: Apache-2.0
//
// The reduction kernels, included once per instruction set. Everything is in an unnamed namespace
// and no inline function of the standard library is called: a copy of such a function compiled for
// a newer processor must never be the one the linker keeps for the whole program.
//
// Plain loops over plain types, which the compiler vectorises at -O3. Floating-point rules are
// IEEE's (no -ffast-math), so the bits do not depend on the instruction set.

namespace {

// 16-bit floats are storage only: a distinct type each, so that overloads can tell them apart.
struct Half {
    std::uint16_t bits;
};
struct Brain {
    std::uint16_t bits;
};

inline float widen(Brain value) {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(value.bits) << 16);
}

inline void narrow(float value, Brain& out) {
    const auto bits = __builtin_bit_cast(std::uint32_t, value);
    // Rounding must not carry a NaN into infinity: keep its upper half and make it quiet.
    const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    const std::uint32_t quiet = (bits >> 16) | 0x40U;
    out.bits = static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
}

inline float widen(Half value) {
    const std::uint32_t sign = (value.bits & 0x8000U) << 16;
    const std::uint32_t exponent = (value.bits >> 10) & 0x1fU;
    const std::uint32_t fraction = value.bits & 0x3ffU;
    if (exponent == 0x1fU) {
        const std::uint32_t quiet = fraction == 0 ? 0U : 0x400000U;
        return __builtin_bit_cast(float, sign | 0x7f800000U | quiet | (fraction << 13));
    }
    if (exponent == 0) {
        // Zero or subnormal: fraction * 2^-24 is exact in a float.
        const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
        return __builtin_bit_cast(float, sign | __builtin_bit_cast(std::uint32_t, magnitude));
    }
    return __builtin_bit_cast(float, sign | ((exponent + 112U) << 23) | (fraction << 13));
}

inline void narrow(float value, Half& out) {
    const auto bits = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t sign = (bits >> 16) & 0x8000U;
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    std::uint32_t result = 0;
    if (magnitude > 0x7f800000U) {
        result = 0x7e00U | ((magnitude >> 13) & 0x3ffU);
    } else if (magnitude >= 0x477ff000U) {
        result = 0x7c00U;  // 65520 and above round to infinity
    } else if (magnitude >= 0x38800000U) {
        const std::uint32_t rebased = magnitude - (112U << 23);
        result = (rebased + 0xfffU + ((rebased >> 13) & 1U)) >> 13;
    } else {
        // Below 2^-14: adding 0.5 aligns the result's last bit, 2^-24, with the float's last bit,
        // and the addition itself rounds to nearest even.
        const float aligned = __builtin_bit_cast(float, magnitude) + 0.5F;
        result = __builtin_bit_cast(std::uint32_t, aligned) - 0x3f000000U;
    }
    out.bits = static_cast<std::uint16_t>(sign | result);
}

// Items are converted in blocks that stay in the first-level cache.
constexpr std::size_t block = 128;

template <typename Element, typename Accumulator>
inline void widen_block(Accumulator* out, const Element* in, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        if constexpr (std::is_class_v<Element>) {
            out[i] = widen(in[i]);
        } else {
            out[i] = static_cast<Accumulator>(in[i]);
        }
    }
}

template <typename Element>
inline void narrow_block(Element* out, const float* in, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) narrow(in[i], out[i]);
}

#ifdef __F16C__
inline void widen_block(float* out, const Half* in, std::size_t count) {
    std::size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m128i halves;
        __builtin_memcpy(&halves, in + i, sizeof halves);
        const __m256 floats = _mm256_cvtph_ps(halves);
        __builtin_memcpy(out + i, &floats, sizeof floats);
    }
    for (; i < count; ++i) out[i] = widen(in[i]);
}

inline void narrow_block(Half* out, const float* in, std::size_t count) {
    std::size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256 floats;
        __builtin_memcpy(&floats, in + i, sizeof floats);
        const __m128i halves =
            _mm256_cvtps_ph(floats, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        __builtin_memcpy(out + i, &halves, sizeof halves);
    }
    for (; i < count; ++i) narrow(in[i], out[i]);
}
#endif

// The unsigned type in which integer arithmetic wraps without undefined behaviour. It is never
// narrower than unsigned int, because a product of two uint16_t is computed as signed int.
template <typename T>
using Wrapping =
    std::conditional_t<(sizeof(T) > 8), UnsignedWide,
                       std::conditional_t<(sizeof(T) > 4), std::uint64_t, std::uint32_t>>;

template <typename T>
inline bool is_nan(T value) {
    if constexpr (std::is_floating_point_v<T>) {
        return __builtin_isunordered(value, value);
    } else {
        return false;
    }
}

template <mpib_op Op, typename T>
inline T apply(T first, T second) {
    if constexpr (Op == MPIB_MIN) {
        return first < second || is_nan(first) ? first : second;
    } else if constexpr (Op == MPIB_MAX) {
        return first > second || is_nan(first) ? first : second;
    } else if constexpr (std::is_floating_point_v<T>) {
        return Op == MPIB_PRODUCT ? first * second : first + second;
    } else {
        const auto a = static_cast<Wrapping<T>>(first);
        const auto b = static_cast<Wrapping<T>>(second);
        return static_cast<T>(Op == MPIB_PRODUCT ? a * b : a + b);
    }
}

template <mpib_op Op, typename Element, typename Accumulator>
struct Kernel {
    static constexpr bool same = std::is_same_v<Element, Accumulator>;

    static void load(void* accumulators, const void* elements, std::size_t count) {
        if constexpr (same) {
            if (count != 0) __builtin_memcpy(accumulators, elements, count * sizeof(Element));
        } else {
            widen_block(static_cast<Accumulator*>(accumulators),
                        static_cast<const Element*>(elements), count);
        }
    }

    static void add(void* accumulators, const void* elements, std::size_t count) {
        auto* acc = static_cast<Accumulator*>(accumulators);
        const auto* in = static_cast<const Element*>(elements);
        if constexpr (same) {
            for (std::size_t i = 0; i < count; ++i) acc[i] = apply<Op>(acc[i], in[i]);
        } else {
            Accumulator wide[block];
            for (std::size_t at = 0; at < count; at += block) {
                const std::size_t part = count - at < block ? count - at : block;
                widen_block(wide, in + at, part);
                for (std::size_t i = 0; i < part; ++i) acc[at + i] = apply<Op>(acc[at + i], wide[i]);
            }
        }
    }

    static void merge(void* result, const void* first, const void* second, std::size_t count) {
        auto* out = static_cast<Accumulator*>(result);
        const auto* a = static_cast<const Accumulator*>(first);
        const auto* b = static_cast<const Accumulator*>(second);
        for (std::size_t i = 0; i < count; ++i) out[i] = apply<Op>(a[i], b[i]);
    }

    static void store(void* elements, const void* accumulators, std::size_t count, int ranks) {
        auto* out = static_cast<Element*>(elements);
        const auto* acc = static_cast<const Accumulator*>(accumulators);
        if constexpr (std::is_class_v<Element>) {
            Accumulator scaled[block];
            for (std::size_t at = 0; at < count; at += block) {
                const std::size_t part = count - at < block ? count - at : block;
                for (std::size_t i = 0; i < part; ++i) scaled[i] = finish(acc[at + i], ranks);
                narrow_block(out + at, scaled, part);
            }
        } else if constexpr (same && Op != MPIB_AVERAGE) {
            if (count != 0) __builtin_memcpy(elements, accumulators, count * sizeof(Element));
        } else {
            for (std::size_t i = 0; i < count; ++i) {
                out[i] = static_cast<Element>(finish(acc[i], ranks));
            }
        }
    }

  private:
    static Accumulator finish(Accumulator value, int ranks) {
        return Op == MPIB_AVERAGE ? value / static_cast<Accumulator>(ranks) : value;
    }
};

template <mpib_op Op, typename Element, typename Accumulator>
constexpr Reduction reduction() {
    using K = Kernel<Op, Element, Accumulator>;
    return {sizeof(Element), sizeof(Accumulator), K::load, K::add, K::merge, K::store};
}

template <typename Element, typename Accumulator, typename Sum>
constexpr Table::Row row() {
    return {reduction<MPIB_SUM, Element, Accumulator>(), reduction<MPIB_AVERAGE, Element, Sum>(),
            reduction<MPIB_MIN, Element, Accumulator>(),
            reduction<MPIB_MAX, Element, Accumulator>(),
            reduction<MPIB_PRODUCT, Element, Accumulator>()};
}

// In the order of mpib_datatype.
constexpr Table table = {{row<std::uint8_t, std::uint8_t, std::int64_t>(),
                          row<std::int8_t, std::int8_t, std::int64_t>(),
                          row<std::int16_t, std::int16_t, std::int64_t>(),
                          row<std::int32_t, std::int32_t, std::int64_t>(),
                          row<std::int64_t, std::int64_t, Wide>(),
                          row<Half, float, float>(),
                          row<Brain, float, float>(),
                          row<float, float, float>(),
                          row<double, double, double>()}};

}  // namespace
