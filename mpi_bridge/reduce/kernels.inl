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

// The order of the operands matters to the bits of NaN and of signed zero. Integers are unsigned
// where the result may wrap, so that it does so without undefined behaviour.
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
    } else if constexpr (N == 1 && sizeof(T) < sizeof(unsigned)) {
        // Not left to the language, which would compute two uint16_t as signed int.
        return static_cast<T>(apply<Op, unsigned, 1>(first, second));
    } else if constexpr (Op == MPIB_AND) {
        return first & second;
    } else if constexpr (Op == MPIB_OR) {
        return first | second;
    } else {
        return Op == MPIB_PRODUCT ? first * second : first + second;
    }
}

// Where a pass over memory begins and ends.
enum class From { sources, accumulators };
enum class To { accumulators, elements, twins };  // twins: the elements at two places

// Accumulators of a block stay in the first-level cache between passes.
constexpr std::size_t block_bytes = 4096;
// Sources read side by side; more are taken in groups of as many.
constexpr std::size_t most_sources = 4;

template <mpib_op Op, typename Element, typename Accumulator>
struct Kernel {
    static constexpr bool same = std::is_same_v<Element, Accumulator>;
    // Whether accumulators are results as they are.
    static constexpr bool finished =
        same && Op != MPIB_AVERAGE && !std::is_floating_point_v<Element>;
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
        if constexpr (finished) {
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

    static void combine_pair(void* const* targets, const void* const* sources, std::size_t count,
                             int ranks) {
        Streams<2> streams{static_cast<unsigned char*>(targets[0]),
                           static_cast<unsigned char*>(targets[1]),
                           nullptr,
                           {static_cast<const unsigned char*>(sources[0]),
                            static_cast<const unsigned char*>(sources[1])}};
        walk<From::sources, To::twins>(streams, count, ranks);
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
        streams.twin = nullptr;
        streams.accumulators = static_cast<const unsigned char*>(accumulators);
        for (std::size_t s = 0; s < S; ++s) {
            streams.in[s] = static_cast<const unsigned char*>(sources[s]) + at * sizeof(Element);
        }
        walk<from, to>(streams, count, ranks);
    }

  private:
    template <std::size_t S>
    struct Streams {
        unsigned char* out;
        unsigned char* twin;
        const unsigned char* accumulators;
        const unsigned char* in[S == 0 ? 1 : S];
    };

    template <From from, To to, std::size_t S>
    [[gnu::always_inline]] static void walk(const Streams<S>& streams, std::size_t count,
                                            int ranks) {
        std::size_t i = 0;
        if constexpr (std::is_same_v<Element, Brain> && from == From::sources &&
                      to == To::elements) {
            for (; i + 2 * width <= count; i += 2 * width)
                step_in_pairs(streams, i, ranks);
        }
        for (; i + width <= count; i += width)
            step<from, to, S, width>(streams, i, ranks);
        if constexpr (width > 1) {
            for (; i < count; ++i)
                step<from, to, S, 1>(streams, i, ranks);
        }
    }

    template <From from, To to>
    static void pass_any(void* out, const void* accumulators, const void* const* sources,
                         std::size_t sources_count, std::size_t at, std::size_t count, int ranks) {
        constexpr To end = finished ? To::accumulators : to;
        switch (sources_count) {
            case 1:
                return pass<from, end, 1>(out, accumulators, sources, at, count, ranks);
            case 2:
                return pass<from, end, 2>(out, accumulators, sources, at, count, ranks);
            case 3:
                return pass<from, end, 3>(out, accumulators, sources, at, count, ranks);
            default:
                return pass<from, end, 4>(out, accumulators, sources, at, count, ranks);
        }
    }

    // The pass for items i to i + N.
    template <From from, To to, std::size_t S, std::size_t N>
    [[gnu::always_inline]] static void step(const Streams<S>& streams, std::size_t i, int ranks) {
        using Conversion = Convert<Element, Accumulator, N>;
        const std::size_t element = i * sizeof(Element);
        const std::size_t accumulator = i * sizeof(Accumulator);
        const auto with = [&](Lanes<Accumulator, N> value, std::size_t source) {
            return apply<Op, Accumulator, N>(value,
                                             Conversion::widen(streams.in[source] + element));
        };
        Lanes<Accumulator, N> value;
        if constexpr (from == From::sources) {
            value = Conversion::widen(streams.in[0] + element);
        } else {
            value = read<Accumulator, N>(streams.accumulators + accumulator);
            if constexpr (S > 0) value = with(value, 0);
        }
        if constexpr (S > 1) value = with(value, 1);
        if constexpr (S > 2) value = with(value, 2);
        if constexpr (S > 3) value = with(value, 3);
        if constexpr (to == To::accumulators) {
            write(streams.out + accumulator, value);
        } else {
            if constexpr (Op == MPIB_AVERAGE) value = value / static_cast<Accumulator>(ranks);
            Conversion::narrow(streams.out + element, value);
            if constexpr (to == To::twins) Conversion::narrow(streams.twin + element, value);
        }
    }

    // The pass for Brains i to i + 2 * width, from sources to elements.
    template <std::size_t S>
    [[gnu::always_inline]] static void step_in_pairs(const Streams<S>& streams, std::size_t i,
                                                     int ranks) {
        using Pairs = BrainPairs<width>;
        const std::size_t element = i * sizeof(Element);
        const auto with = [&](const Pairs& value, std::size_t source) -> Pairs {
            const Pairs next = Pairs::widen(streams.in[source] + element);
            return {apply<Op, Accumulator, width>(value.lower, next.lower),
                    apply<Op, Accumulator, width>(value.upper, next.upper)};
        };
        Pairs value = Pairs::widen(streams.in[0] + element);
        if constexpr (S > 1) value = with(value, 1);
        if constexpr (S > 2) value = with(value, 2);
        if constexpr (S > 3) value = with(value, 3);
        if constexpr (Op == MPIB_AVERAGE) {
            value.lower = value.lower / static_cast<Accumulator>(ranks);
            value.upper = value.upper / static_cast<Accumulator>(ranks);
        }
        Pairs::narrow(streams.out + element, value);
    }
};

#include "reduce/scale.inl"

using Scaling = void (*)(void* elements, std::size_t count, double factor);

template <mpib_op Op, typename Element, typename Accumulator>
constexpr Reduction reduction(Scaling scale) {
    using K = Kernel<Op, Element, Accumulator>;
    return {sizeof(Element), sizeof(Accumulator), K::load, K::add, K::merge, K::store, K::combine,
            K::combine_pair, K::combine_partial,  scale};
}

// Rows of the table, in the order of mpib_op.
template <typename Integer, typename Sum>
constexpr KernelTable::Row integers() {
    using Wrapping = std::make_unsigned_t<Integer>;
    constexpr Scaling scale = Scale<Integer>::scale;
    return {{reduction<MPIB_SUM, Wrapping, Wrapping>(scale),
             reduction<MPIB_AVERAGE, Integer, Sum>(scale),
             reduction<MPIB_MIN, Integer, Integer>(scale),
             reduction<MPIB_MAX, Integer, Integer>(scale),
             reduction<MPIB_PRODUCT, Wrapping, Wrapping>(scale),
             reduction<MPIB_AND, Wrapping, Wrapping>(scale),
             reduction<MPIB_OR, Wrapping, Wrapping>(scale)}};
}

template <typename Element, typename Accumulator>
constexpr KernelTable::Row floats() {
    constexpr Scaling scale = Scale<Element>::scale;
    return {{reduction<MPIB_SUM, Element, Accumulator>(scale),
             reduction<MPIB_AVERAGE, Element, Accumulator>(scale),
             reduction<MPIB_MIN, Element, Accumulator>(scale),
             reduction<MPIB_MAX, Element, Accumulator>(scale),
             reduction<MPIB_PRODUCT, Element, Accumulator>(scale), Reduction(), Reduction()}};
}

template <typename Element, typename Accumulator>
constexpr KernelTable::Row truths() {
    constexpr auto every = reduction<MPIB_AND, Element, Accumulator>(nullptr);
    constexpr auto any = reduction<MPIB_OR, Element, Accumulator>(nullptr);
    return {{Reduction(), Reduction(), every, any, Reduction(), every, any}};
}

constexpr KernelTable table = {{
#define MPIB_ROW(NAME, name, family, element, accumulator, ...) family<element, accumulator>(),
    MPI_BRIDGE_DATATYPES(MPIB_ROW)
#undef MPIB_ROW
}};

}  // namespace
