// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/neutral.hpp"

#include <cstdint>
#include <cstring>
#include <limits>

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

enum class Number { zero, one, largest, smallest, all_bits };

template <typename T>
Pattern integer(Number number) {
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
Pattern floating(Number number) {
    switch (number) {
        case Number::one:
            return pattern(T{1});
        case Number::largest:
            return pattern(std::numeric_limits<T>::infinity());
        case Number::smallest:
            return pattern(-std::numeric_limits<T>::infinity());
        default:
            return pattern(T{0});
    }
}

// The upper 16 bits of an IEEE number; `one` and `infinity` are the bits of these values.
Pattern short_floating(Number number, std::uint16_t one, std::uint16_t infinity) {
    constexpr std::uint16_t sign = 0x8000;
    switch (number) {
        case Number::one:
            return pattern(one);
        case Number::largest:
            return pattern(infinity);
        case Number::smallest:
            return pattern(static_cast<std::uint16_t>(infinity | sign));
        default:
            return pattern(std::uint16_t{0});
    }
}

Pattern pattern_of(mpib_datatype datatype, Number number) {
    switch (datatype) {
        case MPIB_UINT8:
            return integer<std::uint8_t>(number);
        case MPIB_INT8:
            return integer<std::int8_t>(number);
        case MPIB_INT16:
            return integer<std::int16_t>(number);
        case MPIB_INT32:
            return integer<std::int32_t>(number);
        case MPIB_INT64:
            return integer<std::int64_t>(number);
        case MPIB_FLOAT16:
            return short_floating(number, 0x3c00, 0x7c00);
        case MPIB_BFLOAT16:
            return short_floating(number, 0x3f80, 0x7f80);
        case MPIB_FLOAT32:
            return floating<float>(number);
        case MPIB_FLOAT64:
            return floating<double>(number);
        case MPIB_BOOL:
            break;
    }
    return pattern(static_cast<std::uint8_t>(number == Number::zero ? 0 : 1));
}

bool is_integer(mpib_datatype datatype) {
    return datatype <= MPIB_INT64;
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
    switch (datatype) {
        case MPIB_UINT8:
        case MPIB_INT8:
            return std::numeric_limits<std::int8_t>::max();
        case MPIB_INT16:
        case MPIB_FLOAT16:
            return std::numeric_limits<std::int16_t>::max();
        default:
            return std::numeric_limits<int>::max();
    }
}

}  // namespace mpi_bridge
