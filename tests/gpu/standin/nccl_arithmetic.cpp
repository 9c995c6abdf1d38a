// SPDX-License-Identifier: Apache-2.0
#include "nccl_arithmetic.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "plan.hpp"

namespace standin {
namespace {

// 16-bit floats compute in 32 bits and are rounded to nearest even.
struct Half {
    std::uint16_t bits;
};
struct Brain {
    std::uint16_t bits;
};

float widened(Brain value) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

float widened(Half value) {
    const float sign = (value.bits & 0x8000) != 0 ? -1.0F : 1.0F;
    const int exponent = value.bits >> 10 & 31;
    const auto fraction = static_cast<float>(value.bits & 0x3ff);
    if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
    if (exponent == 0) return sign * std::ldexp(fraction, -24);
    return sign * std::ldexp(1024 + fraction, exponent - 25);
}

void narrow(float value, Brain& out) {
    auto bits = std::bit_cast<std::uint32_t>(value);
    if (std::isnan(value)) {
        out.bits = static_cast<std::uint16_t>(bits >> 16 | 0x40);
        return;
    }
    bits += 0x7fff + (bits >> 16 & 1);
    out.bits = static_cast<std::uint16_t>(bits >> 16);
}

void narrow(float value, Half& out) {
    const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
    const float size = std::fabs(value);
    std::uint32_t bits = 0;
    if (std::isnan(value)) {
        bits = 0x7e00;
    } else if (size >= 65520) {
        bits = 0x7c00;
    } else if (size < 0x1p-14F) {
        bits = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(size, 24)));
    } else {
        int exponent = 0;
        const float fraction = std::frexp(size, &exponent);  // 0.5 <= fraction < 1
        const auto rounded = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(fraction, 11)));
        bits = static_cast<std::uint32_t>(exponent + 13) * 1024 + rounded;
    }
    out.bits = static_cast<std::uint16_t>(sign | bits);
}

template <typename T>
constexpr bool is_short = std::is_same_v<T, Half> || std::is_same_v<T, Brain>;

template <typename T>
T applied(T a, T b, int op) {
    if constexpr (is_short<T>) {
        T out;
        narrow(applied(widened(a), widened(b), op), out);
        return out;
    } else if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
        if (op >= 2) return op == 2 ? std::max(a, b) : std::min(a, b);
        // Overflow wraps.
        using U = std::make_unsigned_t<T>;
        const auto left = static_cast<std::uint64_t>(static_cast<U>(a));
        const auto right = static_cast<std::uint64_t>(static_cast<U>(b));
        return static_cast<T>(static_cast<U>(op == 0 ? left + right : left * right));
    } else {
        switch (op) {
            case 0:
                return static_cast<T>(a + b);
            case 1:
                return static_cast<T>(a * b);
            case 2:
                return std::max(a, b);
            default:
                return std::min(a, b);
        }
    }
}

template <typename Body>
void with_type(int type, const Body& body) {
    switch (type) {
        case 0:
            return body(std::int8_t{});
        case 1:
            return body(std::uint8_t{});
        case 2:
            return body(std::int32_t{});
        case 3:
            return body(std::uint32_t{});
        case 4:
            return body(std::int64_t{});
        case 5:
            return body(std::uint64_t{});
        case 6:
            return body(Half{});
        case 7:
            return body(float{});
        case 8:
            return body(double{});
        case 9:
            return body(Brain{});
        default:
            misuse("NCCL has no such type");
    }
}

template <typename T>
T loaded(const std::byte* from, std::size_t index) {
    T value;
    std::memcpy(&value, from + index * sizeof value, sizeof value);
    return value;
}

}  // namespace

std::size_t bytes_of_type(int type) {
    constexpr std::size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return type < 0 || type > 9 ? 0 : bytes[type];
}

void reduce(std::byte* out, std::span<const std::byte* const> inputs, std::size_t count, int type,
            int op) {
    with_type(type, [&](auto any) {
        using T = decltype(any);
        for (std::size_t i = 0; i < count; ++i) {
            T value = loaded<T>(inputs[0], i);
            for (const std::byte* input : inputs.subspan(1))
                value = applied(value, loaded<T>(input, i), op);
            std::memcpy(out + i * sizeof value, &value, sizeof value);
        }
    });
}

void scale(std::byte* values, std::size_t count, int type, const std::byte* factor) {
    with_type(type, [&](auto any) {
        using T = decltype(any);
        const T by = loaded<T>(factor, 0);
        for (std::size_t i = 0; i < count; ++i) {
            const T value = applied(loaded<T>(values, i), by, 1);
            std::memcpy(values + i * sizeof value, &value, sizeof value);
        }
    });
}

}  // namespace standin
