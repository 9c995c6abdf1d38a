// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "mpi_bridge.h"

// Random data of every datatype, and what reductions of it must give: integers exactly, floating
// point within the rounding that the API promises. Shares no code with the library.
namespace mpi_bridge_test {

__extension__ typedef __int128 Exact;

// Numbers, and the operations that all of them have.
constexpr mpib_datatype all_datatypes[] = {MPIB_UINT8,    MPIB_INT8,    MPIB_INT16,
                                           MPIB_INT32,    MPIB_INT64,   MPIB_FLOAT16,
                                           MPIB_BFLOAT16, MPIB_FLOAT32, MPIB_FLOAT64};
constexpr mpib_op all_ops[] = {MPIB_SUM, MPIB_AVERAGE, MPIB_MIN, MPIB_MAX, MPIB_PRODUCT};

struct Half {
    std::uint16_t bits;
    static constexpr int digits = 11;
    static Half from(double value) {  // exact for normal values with at most 11 significant bits
        int exponent = 0;
        const double fraction = std::frexp(std::fabs(value), &exponent);
        const auto mantissa = static_cast<unsigned>(std::ldexp(fraction, digits));
        const auto bits = (static_cast<unsigned>(exponent + 14) << 10) | (mantissa & 0x3ffU);
        return {static_cast<std::uint16_t>(bits | (value < 0 ? 0x8000U : 0U))};
    }
    [[nodiscard]] double value() const {
        const int exponent = (bits >> 10) & 0x1f;
        const int mantissa = bits & 0x3ff;
        double magnitude = 0;
        if (exponent == 0x1f) {
            magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity()
                                      : std::numeric_limits<double>::quiet_NaN();
        } else if (exponent == 0) {
            magnitude = std::ldexp(mantissa, -24);
        } else {
            magnitude = std::ldexp(mantissa + 1024, exponent - 25);
        }
        return (bits & 0x8000U) != 0 ? -magnitude : magnitude;
    }
};

struct Brain {
    std::uint16_t bits;
    static constexpr int digits = 8;
    static Brain from(double value) {  // exact for values with at most 8 significant bits
        const auto wide = std::bit_cast<std::uint32_t>(static_cast<float>(value));
        return {static_cast<std::uint16_t>(wide >> 16)};
    }
    [[nodiscard]] double value() const {
        return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
    }
};

template <typename T>
constexpr bool is_short_float = std::is_same_v<T, Half> || std::is_same_v<T, Brain>;

// Calls f(T{}) with the C++ type of the datatype; a truth value is its byte.
template <typename F>
auto with_type(mpib_datatype datatype, F&& f) {
    switch (datatype) {
        case MPIB_UINT8:
            return f(std::uint8_t{});
        case MPIB_INT8:
            return f(std::int8_t{});
        case MPIB_INT16:
            return f(std::int16_t{});
        case MPIB_INT32:
            return f(std::int32_t{});
        case MPIB_INT64:
            return f(std::int64_t{});
        case MPIB_FLOAT16:
            return f(Half{});
        case MPIB_BFLOAT16:
            return f(Brain{});
        case MPIB_FLOAT32:
            return f(float{});
        case MPIB_BOOL:
            return f(std::uint8_t{});
        case MPIB_FLOAT64:
            break;
    }
    return f(double{});
}

// Random values: integers over their whole range; floating point of either sign with a magnitude
// from 1/2 to 2, so that products of a dozen fit every type.
template <typename T>
std::vector<T> random_values(std::size_t count, std::uint64_t seed) {
    std::mt19937_64 random(seed * 0x9e3779b97f4a7c15U + 1);
    std::vector<T> values(count);
    for (T& value : values) {
        const std::uint64_t bits = random();
        const double sign = (bits & 1U) != 0 ? -1.0 : 1.0;
        if constexpr (std::is_integral_v<T>) {
            value = static_cast<T>(bits);
        } else if constexpr (is_short_float<T>) {
            value = T::from(sign * static_cast<double>(64 + (bits >> 8) % 192) / 128.0);
        } else {
            const double fraction = static_cast<double>(bits >> 11) * 0x1p-53;
            value = static_cast<T>(sign * (0.5 + 1.5 * fraction));
        }
    }
    return values;
}

template <typename T>
long double to_real(T value) {
    if constexpr (is_short_float<T>) {
        return value.value();
    } else {
        return static_cast<long double>(value);
    }
}

// Whether `result` is what `op` over the inputs (one number per rank) must give.
template <typename T>
bool is_right(T result, const std::vector<T>& inputs, mpib_op op) {
    const auto ranks = inputs.size();
    if constexpr (std::is_integral_v<T>) {
        Exact sum = 0;
        std::uint64_t product = 1;
        T least = inputs[0];
        T most = inputs[0];
        T every = inputs[0];
        T any = inputs[0];
        for (const T input : inputs) {
            sum += input;
            product *= static_cast<std::uint64_t>(input);
            least = std::min(least, input);
            most = std::max(most, input);
            every = static_cast<T>(every & input);
            any = static_cast<T>(any | input);
        }
        switch (op) {
            case MPIB_SUM:
                return result == static_cast<T>(sum);
            case MPIB_AVERAGE:
                return result == static_cast<T>(sum / static_cast<Exact>(ranks));
            case MPIB_MIN:
                return result == least;
            case MPIB_MAX:
                return result == most;
            case MPIB_PRODUCT:
                return result == static_cast<T>(product);
            case MPIB_AND:
                return result == every;
            case MPIB_OR:
                return result == any;
        }
        return false;
    } else {
        long double sum = 0;
        long double size = 0;
        long double product = 1;
        long double least = to_real(inputs[0]);
        long double most = least;
        for (const T input : inputs) {
            const long double value = to_real(input);
            sum += value;
            size += std::fabs(value);
            product *= value;
            least = std::min(least, value);
            most = std::max(most, value);
        }
        const long double actual = to_real(result);
        if (op == MPIB_MIN) return actual == least;
        if (op == MPIB_MAX) return actual == most;
        // n-1 operations in the accumulator's precision, and one rounding of a 16-bit result.
        const long double unit = std::is_same_v<T, double> ? 0x1p-53L : 0x1p-24L;
        const auto steps = static_cast<long double>(ranks);
        long double expected = sum;
        long double error = steps * unit * size;
        if (op == MPIB_AVERAGE) {
            expected = sum / steps;
            error = error / steps + unit * std::fabs(expected);
        } else if (op == MPIB_PRODUCT) {
            expected = product;
            error = steps * unit * std::fabs(product) * 2;
        }
        if constexpr (is_short_float<T>) {
            const long double rounding = std::ldexp(std::fabs(expected) + error, -T::digits);
            error += std::max(rounding, 0x1p-25L);
        }
        return std::fabs(actual - expected) <= error;
    }
}

}  // namespace mpi_bridge_test
