// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/neutral.hpp"

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "reduce/datatypes.hpp"

namespace mpi_bridge {
namespace {

// A number in the memory format of a datatype, in the first bytes.
struct Pattern {
    std::byte bytes[8] = {};
    std::size_t length = 0;
};

template <typename T>
Pattern pattern(T value) {
    Pattern result;
    std::memcpy(result.bytes, &value, sizeof value);
    result.length = sizeof value;
    return result;
}

template <typename Bits>
constexpr Bits with_sign(Bits magnitude) {
    return static_cast<Bits>(magnitude | Bits{1} << (sizeof(Bits) * 8 - 1));
}

enum class Number { zero, one, largest, smallest, all_bits };

template <typename T>
Pattern integers(Number number) {
    switch (number) {
        case Number::zero:
            return pattern(T{0});
        case Number::one:
            return pattern(T{1});
        case Number::largest:
            return pattern(std::numeric_limits<T>::max());
        case Number::smallest:
            return pattern(std::numeric_limits<T>::min());
        case Number::all_bits:
            break;
    }
    return pattern(static_cast<T>(~std::uint64_t{0}));
}

template <typename T>
Pattern floats(Number number) {
    // What has no arithmetic of its own gives the bits of its numbers; the sign is the first bit.
    constexpr bool has_arithmetic = std::is_floating_point_v<T>;
    switch (number) {
        case Number::one:
            if constexpr (has_arithmetic)
                return pattern(T{1});
            else
                return pattern(T::one);
        case Number::largest:
            if constexpr (has_arithmetic)
                return pattern(std::numeric_limits<T>::infinity());
            else
                return pattern(T::infinity);
        case Number::smallest:
            if constexpr (has_arithmetic)
                return pattern(-std::numeric_limits<T>::infinity());
            else
                return pattern(with_sign(T::infinity));
        default:
            return pattern(T{});
    }
}

template <typename T>
Pattern truths(Number number) {
    return pattern(T{static_cast<std::uint8_t>(number == Number::zero ? 0 : 1)});
}

Pattern pattern_of(mpib_datatype datatype, Number number) {
    switch (datatype) {
#define MPIB_CASE(NAME, name, family, element, ...) \
    case MPIB_##NAME:                               \
        return family<element>(number);
        MPI_BRIDGE_DATATYPES(MPIB_CASE)
#undef MPIB_CASE
    }
    return {};
}

bool is_integer(mpib_datatype datatype) {
    return datatypes[datatype].family == Family::integers;
}

Number neutral_of(mpib_op op) {
    switch (op) {
        case MPIB_MIN:
            return Number::largest;
        case MPIB_MAX:
            return Number::smallest;
        case MPIB_PRODUCT:
            return Number::one;
        case MPIB_AND:
            return Number::all_bits;
        default:
            return Number::zero;
    }
}

}  // namespace

void fill_neutral(Bytes memory, mpib_datatype datatype, mpib_op op) {
    const Pattern value = pattern_of(datatype, neutral_of(op));
    for (std::size_t at = 0; at + value.length <= memory.size(); at += value.length)
        std::memcpy(memory.data() + at, value.bytes, value.length);
}

StatusElement status_element(mpib_datatype datatype, mpib_op op, int ranks) {
    // For MIN, PRODUCT and AND, a single zero changes a result of ones; for the others, a single
    // one changes a result of zeros. An average of integers is truncated, so there the bad value of
    // one rank must be as large as the number of ranks.
    const bool zero_is_bad = op == MPIB_MIN || op == MPIB_PRODUCT || op == MPIB_AND;
    Pattern good = pattern_of(datatype, zero_is_bad ? Number::one : Number::zero);
    Pattern bad = pattern_of(datatype, zero_is_bad ? Number::zero : Number::one);
    if (op == MPIB_AVERAGE && is_integer(datatype)) {
        // Little endian, like every machine that this library is built for.
        const auto weight = static_cast<std::uint64_t>(ranks);
        std::memcpy(bad.bytes, &weight, bad.length);
    }
    StatusElement element;
    std::memcpy(element.good, good.bytes, good.length);
    std::memcpy(element.bad, bad.bytes, bad.length);
    return element;
}

int most_status_ranks(mpib_datatype datatype) {
    const Datatype& type = datatypes[datatype];
    if (type.family == Family::truths) return std::numeric_limits<int>::max();
    // A sum must not wrap to zero, and the average of a single one not be rounded to it.
    switch (type.bytes) {
        case 1:
            return std::numeric_limits<std::int8_t>::max();
        case 2:
            return std::numeric_limits<std::int16_t>::max();
        default:
            return std::numeric_limits<int>::max();
    }
}

}  // namespace mpi_bridge
