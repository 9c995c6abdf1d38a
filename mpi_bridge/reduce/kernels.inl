// SPDX-License-Identifier: Apache-2.0
//
// The reduction kernels, included once per instruction set after `vector_bytes`, the width of its
// registers. Everything is in an unnamed namespace and no inline function of the standard library
// is called: a copy of such a function compiled for a newer processor must never be the one the
// linker keeps for the whole program.
//
// Floating-point rules are IEEE's (no -ffast-math), and every item of a result is computed by the
// same operations in the same order whatever the width, so the bits do not depend on the
// instruction set.

namespace {

#include "reduce/lanes.inl"

// The unsigned type in which integer arithmetic wraps without undefined behaviour. A lone number is
// never narrower than unsigned int, because a product of two uint16_t is computed as signed int.
template <typename T, std::size_t N>
struct WrappingOf {
    using Type = std::make_unsigned_t<T>;
};
template <typename T>
struct WrappingOf<T, 1> {
    using Type =
        std::conditional_t<(sizeof(T) > 8), UnsignedWide,
                           std::conditional_t<(sizeof(T) > 4), std::uint64_t, std::uint32_t>>;
};

// The order of the operands matters to the bits of NaN and of signed zero.
template <mpib_op Op, typename T, std::size_t N>
inline Lanes<T, N> apply(Lanes<T, N> first, Lanes<T, N> second) {
    if constexpr (Op == MPIB_MIN || Op == MPIB_MAX) {
        const auto better = Op == MPIB_MIN ? first < second : first > second;
        if constexpr (std::is_floating_point_v<T>) {
            // NaN wins.
            return (better | (first != first)) ? first : second;
        } else {
            return better ? first : second;
        }
    } else if constexpr (std::is_floating_point_v<T>) {
        return Op == MPIB_PRODUCT ? first * second : first + second;
    } else {
        using Wrapping = typename WrappingOf<T, N>::Type;
        const auto a = convert<Wrapping, N>(first);
        const auto b = convert<Wrapping, N>(second);
        return convert<T, N>(Op == MPIB_PRODUCT ? a * b : a + b);
    }
}

// Where a pass over memory begins and ends.
enum class From { sources, accumulators };
enum class To { accumulators, elements };

// Accumulators of a block stay in the first-level cache between passes.
constexpr std::size_t block_bytes = 4096;
// More streams than this at once and the processor's prefetchers lose track.
constexpr std::size_t most_sources = 4;

template <mpib_op Op, typename Element, typename Accumulator>
struct Kernel {
    static constexpr bool same = std::is_same_v<Element, Accumulator>;
    static constexpr bool wide = sizeof(Accumulator) > 8;  // no vectors of these
    static constexpr std::size_t width = wide ? 1 : vector_bytes / sizeof(Accumulator);
    static constexpr std::size_t block = block_bytes / sizeof(Accumulator);

    static void load(void* accumulators, const void* elements, std::size_t count) {
        if constexpr (same) {
            if (count != 0) __builtin_memcpy(accumulators, elements, count * sizeof(Element));
        } else {
            pass<From::sources, To::accumulators, 1>(accumulators, nullptr, &elements, 0, count, 1);
        }
    }

    static void add(void* accumulators, const void* elements, std::size_t count) {
        pass<From::accumulators, To::accumulators, 1>(accumulators, accumulators, &elements, 0,
                                                      count, 1);
    }

    static void merge(void* result, const void* first, const void* second, std::size_t count) {
        const void* both[] = {first, second};
        Kernel<Op, Accumulator, Accumulator>::template pass<From::sources, To::accumulators, 2>(
            result, nullptr, both, 0, count, 1);
    }

    static void store(void* elements, const void* accumulators, std::size_t count, int ranks) {
        if constexpr (same && Op != MPIB_AVERAGE) {
            if (count != 0) __builtin_memcpy(elements, accumulators, count * sizeof(Element));
        } else {
            pass<From::accumulators, To::elements, 0>(elements, accumulators, nullptr, 0, count,
                                                      ranks);
        }
    }

    static void combine(void* elements, const void* const* sources, std::size_t sources_count,
                        std::size_t count, int ranks) {
        if (sources_count <= most_sources) {
            pass_any<From::sources, To::elements>(elements, nullptr, sources, sources_count, 0,
                                                  count, ranks);
            return;
        }
        unsigned char partial[block_bytes];
        auto* out = static_cast<unsigned char*>(elements);
        for (std::size_t at = 0; at < count; at += block) {
            const std::size_t part = count - at < block ? count - at : block;
            pass<From::sources, To::accumulators, most_sources>(partial, nullptr, sources, at, part,
                                                                1);
            std::size_t done = most_sources;
            for (; sources_count - done > most_sources; done += most_sources) {
                pass<From::accumulators, To::accumulators, most_sources>(
                    partial, partial, sources + done, at, part, 1);
            }
            pass_any<From::accumulators, To::elements>(out + at * sizeof(Element), partial,
                                                       sources + done, sources_count - done, at,
                                                       part, ranks);
        }
    }

    static void combine_partial(void* accumulators, const void* const* sources,
                                std::size_t sources_count, std::size_t count) {
        auto* out = static_cast<unsigned char*>(accumulators);
        for (std::size_t at = 0; at < count; at += block) {
            const std::size_t part = count - at < block ? count - at : block;
            unsigned char* partial = out + at * sizeof(Accumulator);
            std::size_t done = sources_count < most_sources ? sources_count : most_sources;
            pass_any<From::sources, To::accumulators>(partial, nullptr, sources, done, at, part, 1);
            while (done < sources_count) {
                const std::size_t left = sources_count - done;
                const std::size_t next = left < most_sources ? left : most_sources;
                pass_any<From::accumulators, To::accumulators>(partial, partial, sources + done,
                                                               next, at, part, 1);
                done += next;
            }
        }
    }

    // out[i] = [accumulators[i] op] sources[0][at + i] op ... sources[S - 1][at + i], for i <
    // count.
    template <From from, To to, std::size_t S>
    static void pass(void* out, const void* accumulators, const void* const* sources,
                     std::size_t at, std::size_t count, int ranks) {
        Streams<S> streams;
        streams.out = static_cast<unsigned char*>(out);
        streams.accumulators = static_cast<const unsigned char*>(accumulators);
        for (std::size_t s = 0; s < S; ++s) {
            streams.in[s] = static_cast<const unsigned char*>(sources[s]) + at * sizeof(Element);
        }
        std::size_t i = 0;
        for (; i + width <= count; i += width)
            step<from, to, S, width>(streams, i, ranks);
        if constexpr (width > 1) {
            for (; i < count; ++i)
                step<from, to, S, 1>(streams, i, ranks);
        }
    }

  private:
    template <std::size_t S>
    struct Streams {
        unsigned char* out;
        const unsigned char* accumulators;
        const unsigned char* in[S == 0 ? 1 : S];
    };

    template <From from, To to>
    static void pass_any(void* out, const void* accumulators, const void* const* sources,
                         std::size_t sources_count, std::size_t at, std::size_t count, int ranks) {
        switch (sources_count) {
            case 1:
                return pass<from, to, 1>(out, accumulators, sources, at, count, ranks);
            case 2:
                return pass<from, to, 2>(out, accumulators, sources, at, count, ranks);
            case 3:
                return pass<from, to, 3>(out, accumulators, sources, at, count, ranks);
            default:
                return pass<from, to, 4>(out, accumulators, sources, at, count, ranks);
        }
    }

    // The pass for items i to i + N.
    template <From from, To to, std::size_t S, std::size_t N>
    [[gnu::always_inline]] static void step(const Streams<S>& streams, std::size_t i, int ranks) {
        using Conversion = Convert<Element, Accumulator, N>;
        const std::size_t element = i * sizeof(Element);
        const std::size_t accumulator = i * sizeof(Accumulator);
        Lanes<Accumulator, N> value;
        constexpr std::size_t first = from == From::sources ? 1 : 0;
        if constexpr (from == From::sources) {
            value = Conversion::widen(streams.in[0] + element);
        } else {
            value = read<Accumulator, N>(streams.accumulators + accumulator);
        }
        for (std::size_t s = first; s < S; ++s) {
            value = apply<Op, Accumulator, N>(value, Conversion::widen(streams.in[s] + element));
        }
        if constexpr (to == To::accumulators) {
            write(streams.out + accumulator, value);
        } else {
            if constexpr (Op == MPIB_AVERAGE) value = value / static_cast<Accumulator>(ranks);
            Conversion::narrow(streams.out + element, value);
        }
    }
};

#include "reduce/scale.inl"

template <mpib_op Op, typename Element, typename Accumulator>
constexpr Reduction reduction() {
    using K = Kernel<Op, Element, Accumulator>;
    return {
        sizeof(Element),    sizeof(Accumulator),  K::load, K::add, K::merge, K::store, K::combine,
        K::combine_partial, Scale<Element>::scale};
}

template <typename Element, typename Accumulator, typename Sum>
constexpr Table::Row row() {
    return {reduction<MPIB_SUM, Element, Accumulator>(), reduction<MPIB_AVERAGE, Element, Sum>(),
            reduction<MPIB_MIN, Element, Accumulator>(),
            reduction<MPIB_MAX, Element, Accumulator>(),
            reduction<MPIB_PRODUCT, Element, Accumulator>()};
}

// In the order of mpib_datatype.
constexpr Table table = {
    {row<std::uint8_t, std::uint8_t, std::int64_t>(), row<std::int8_t, std::int8_t, std::int64_t>(),
     row<std::int16_t, std::int16_t, std::int64_t>(),
     row<std::int32_t, std::int32_t, std::int64_t>(), row<std::int64_t, std::int64_t, Wide>(),
     row<Half, float, float>(), row<Brain, float, float>(), row<float, float, float>(),
     row<double, double, double>()}};

}  // namespace
