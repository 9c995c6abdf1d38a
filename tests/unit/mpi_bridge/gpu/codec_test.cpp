// SPDX-License-Identifier: Apache-2.0
//
// What the codecs compute, element by element, by the kernels' own code run on the host.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "../reference.hpp"
#include "packing.hpp"

namespace {

using namespace mpi_bridge;
using namespace mpi_bridge_test;

template <typename T>
std::vector<T> every_pattern() {
    std::vector<T> all(65536);
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i].bits = static_cast<std::uint16_t>(i);
    return all;
}

// The keys of 32-bit floats, by which codecs for minimum and maximum show how they widen and round.
std::int32_t key_of(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<std::int32_t>(bits >> 31 != 0 ? bits ^ 0x7fffffffU : bits);
}
float float_of(std::int32_t key) {
    const auto bits = static_cast<std::uint32_t>(key);
    return std::bit_cast<float>(key < 0 ? bits ^ 0x7fffffffU : bits);
}

// Widening 16-bit floats to 32 bits is exact for every pattern.
template <typename Short>
void check_widening(Codec codec) {
    const auto all = every_pattern<Short>();
    std::vector<float> wide;
    for (const std::int32_t key : encode<std::int32_t>(codec, all, with_factor(1)))
        wide.push_back(float_of(key));
    for (std::size_t i = 0; i < all.size(); ++i) {
        const double expected = all[i].value();
        if (std::isnan(expected)) {
            EXPECT_TRUE(std::isnan(wide[i])) << i;
        } else {
            EXPECT_EQ(wide[i], expected) << i;
            EXPECT_EQ(std::signbit(wide[i]), std::signbit(expected)) << i;
        }
    }
}

TEST(Codec, WidensEveryShortFloatExactly) {
    check_widening<Half>(Codec::f16_as_key);
    check_widening<Brain>(Codec::bf16_as_key);
}

template <typename Short>
std::vector<Short> rounded(Codec codec, const std::vector<float>& values) {
    std::vector<std::int32_t> keys;
    for (const float value : values)
        keys.push_back(key_of(value));
    return decode<Short>(codec, keys, with_factor(1));
}

// Between two neighbours of the short type: the middle goes to the even one, all else to the
// nearer.
template <typename Short>
void check_rounding(Codec codec, std::uint16_t infinity) {
    std::vector<float> values;
    std::vector<std::uint16_t> expected;
    const auto add = [&](double value, std::uint16_t bits) {
        values.push_back(static_cast<float>(value));
        expected.push_back(bits);
        values.push_back(static_cast<float>(-value));
        expected.push_back(static_cast<std::uint16_t>(bits | 0x8000U));
    };
    for (std::uint16_t bits = 0; bits + 1 < infinity; ++bits) {
        const auto next = static_cast<std::uint16_t>(bits + 1);
        const auto low = static_cast<float>(Short{bits}.value());
        const auto high = static_cast<float>(Short{next}.value());
        const float middle = low / 2 + high / 2;
        add(low, bits);
        // Halves of the smallest floats are not floats; there the three are not told apart.
        if (middle <= low || middle >= high) continue;
        add(middle, (bits & 1U) == 0 ? bits : next);
        add(std::nextafter(middle, low), bits);
        add(std::nextafter(middle, high), next);
    }
    add(std::numeric_limits<double>::infinity(), infinity);
    const auto narrow = rounded<Short>(codec, values);
    for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(narrow[i].bits, expected[i]) << values[i];
    const auto nan = rounded<Short>(codec, {std::nanf("")});
    EXPECT_TRUE(std::isnan(nan[0].value()));
}

TEST(Codec, RoundsToTheNearestEvenShortFloat) {
    check_rounding<Half>(Codec::f16_as_key, 0x7c00);
    check_rounding<Brain>(Codec::bf16_as_key, 0x7f80);
    const auto large = rounded<Half>(Codec::f16_as_key, {65519.996F, 65520.0F, 1e30F});
    EXPECT_EQ(large[0].bits, 0x7bff);
    EXPECT_EQ(large[1].bits, 0x7c00);
    EXPECT_EQ(large[2].bits, 0x7c00);
}

TEST(Codec, ScalesFloatsWithOneRounding) {
    const auto values = random_values<float>(1000, 3);
    const double factor = 1.0 / 3;
    const auto scaled = encode<float>(Codec::scale_f32, values, with_factor(factor));
    const auto doubles = random_values<double>(1000, 4);
    const auto scaled_doubles = decode<double>(Codec::scale_f64, doubles, with_factor(factor));
    const auto brains = random_values<Brain>(1000, 5);
    const auto scaled_brains = encode<Brain>(Codec::scale_bf16, brains, with_factor(0.75));
    for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_EQ(scaled[i], values[i] * static_cast<float>(factor));
        EXPECT_EQ(scaled_doubles[i], doubles[i] * factor);
        const double exact = brains[i].value() * 0.75;
        EXPECT_LE(std::fabs(scaled_brains[i].value() - exact), std::ldexp(std::fabs(exact), -8));
    }
}

TEST(Codec, ScalesIntegersTowardZeroAndToTheirLimits) {
    const auto scale = [](auto codec, auto value, double factor) {
        return encode<decltype(value)>(codec, std::vector{value}, with_factor(factor))[0];
    };
    EXPECT_EQ(scale(Codec::scale_i32, std::int32_t{-7}, 0.5), -3);
    EXPECT_EQ(scale(Codec::scale_i32, std::numeric_limits<std::int32_t>::max(), 2), 2147483647);
    EXPECT_EQ(scale(Codec::scale_i8, std::int8_t{-100}, 2), -128);
    EXPECT_EQ(scale(Codec::scale_i16, std::int16_t{-20000}, -2), 32767);
    EXPECT_EQ(scale(Codec::scale_u8, std::uint8_t{200}, -1), 0);
    EXPECT_EQ(scale(Codec::scale_u8, std::uint8_t{200}, 2), 255);
    EXPECT_EQ(scale(Codec::scale_u8, std::uint8_t{7}, std::nan("")), 0);
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    EXPECT_EQ(scale(Codec::scale_i64, most, 2), most);
    EXPECT_EQ(scale(Codec::scale_i64, most, -2), std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(scale(Codec::scale_i64, std::int64_t{1} << 60, 0.25), std::int64_t{1} << 58);
}

TEST(Codec, AveragesOfInt64AreExactWhereTheSumNeedsMoreThan64Bits) {
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    constexpr auto least = std::numeric_limits<std::int64_t>::min();
    struct Pair {
        std::int64_t high;
        std::int64_t low;
    };
    const auto random = random_values<std::int64_t>(64, 9);
    for (const int ranks : {1, 2, 3, 7, 1000}) {
        for (const std::int64_t other : {most, least, std::int64_t{-1}, std::int64_t{0}}) {
            for (const std::int64_t value : random) {
                // One rank has `value`, all others `other`.
                const auto pairs =
                    encode<Pair>(Codec::i64_as_pair, std::vector{value, other}, with_factor(1));
                const Pair sum{pairs[0].high + (ranks - 1) * pairs[1].high,
                               pairs[0].low + (ranks - 1) * pairs[1].low};
                auto arguments = with_factor(1);
                arguments.divisor = ranks;
                const auto average =
                    decode<std::int64_t>(Codec::i64_as_pair, std::vector{sum}, arguments)[0];
                const Exact exact = (Exact{value} + Exact{other} * (ranks - 1)) / ranks;
                ASSERT_EQ(average, static_cast<std::int64_t>(exact))
                    << value << " and " << other << " over " << ranks;
            }
        }
    }
}

// Keys are ordered as the numbers are, with NaN above or below all, and come back bit for bit.
template <typename T, typename Key>
void check_keys(Codec codec, std::vector<T> numbers) {
    for (const unsigned nan_is_least : {0U, 1U}) {
        auto arguments = with_factor(1);
        arguments.nan_is_least = nan_is_least;
        const auto keys = encode<Key>(codec, numbers, arguments);
        const auto back = decode<T>(codec, keys, arguments);
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            const long double number = to_real(numbers[i]);
            if (std::isnan(number)) {
                EXPECT_EQ(keys[i], nan_is_least != 0 ? std::numeric_limits<Key>::min()
                                                     : std::numeric_limits<Key>::max());
                EXPECT_TRUE(std::isnan(to_real(back[i])));
                continue;
            }
            EXPECT_EQ(std::memcmp(&back[i], &numbers[i], sizeof(T)), 0) << number;
            if (i == 0) continue;
            const long double before = to_real(numbers[i - 1]);
            if (std::isnan(before) || before == number) continue;
            EXPECT_EQ(keys[i - 1] < keys[i], before < number) << before << " " << number;
        }
    }
}

TEST(Codec, KeysAreOrderedAsTheNumbersAre) {
    check_keys<Half, std::int32_t>(Codec::f16_as_key, every_pattern<Half>());
    check_keys<Brain, std::int32_t>(Codec::bf16_as_key, every_pattern<Brain>());
    auto floats = random_values<float>(1000, 12);
    auto doubles = random_values<double>(1000, 13);
    for (const double special :
         {0.0, -0.0, 1e-310, -1e-310, std::numeric_limits<double>::infinity(),
          -std::numeric_limits<double>::infinity(), std::nan(""), -std::nan("")}) {
        floats.push_back(static_cast<float>(special));
        doubles.push_back(special);
    }
    check_keys<float, std::int32_t>(Codec::f32_as_key, floats);
    check_keys<double, std::int64_t>(Codec::f64_as_key, doubles);
}

TEST(Codec, TruthIsOneWhateverByteItWas) {
    const auto wire = encode<std::uint8_t>(
        Codec::bool_as_u8, std::vector<std::uint8_t>{0, 1, 2, 128, 255}, with_factor(1));
    EXPECT_EQ(wire, (std::vector<std::uint8_t>{0, 1, 1, 1, 1}));
}

}  // namespace
