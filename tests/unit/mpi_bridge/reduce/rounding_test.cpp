// SPDX-License-Identifier: Apache-2.0
//
// Two operands of every special kind, against arithmetic in double precision rounded once. That is
// exact for what is accumulated in 32-bit floats: a sum, product or quotient rounded first to 24 or
// 53 bits and then to at most (24 - 2) / 2 or (53 - 2) / 2 bits is rounded as if once.
#include "tables.hpp"

namespace {

using namespace mpi_bridge_test;
using mpi_bridge::Reduction;

// A 16-bit format by its numbers.
struct Format {
    int digits;          // of the significand, the hidden one included
    int least_exponent;  // of the last bit of a subnormal number
    double most;         // the largest finite number
    std::uint16_t nan;   // the one NaN of results
};
template <typename T>
constexpr Format format{};
template <>
constexpr Format format<Half>{11, -24, 65504, 0x7e00};
template <>
constexpr Format format<Brain>{8, -133, 0x1.fep127, 0x7fc0};

template <typename T>
double rounded(double exact) {
    if constexpr (std::is_same_v<T, float>) {
        return static_cast<double>(static_cast<float>(exact));
    } else if constexpr (std::is_same_v<T, double>) {
        return exact;
    } else {
        if (!std::isfinite(exact) || exact == 0) return exact;
        const int last =
            std::max(std::ilogb(exact) + 1 - format<T>.digits, format<T>.least_exponent);
        const double near = std::ldexp(std::nearbyint(std::ldexp(exact, -last)), last);
        if (std::fabs(near) <= format<T>.most) return near;
        return std::copysign(std::numeric_limits<double>::infinity(), exact);
    }
}

template <typename T>
std::uint64_t bits_of(T value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
}

template <typename T>
bool is_the_nan(T value) {
    if constexpr (is_short_float<T>) {
        return value.bits == format<T>.nan;
    } else {
        return bits_of(value) == bits_of(std::numeric_limits<T>::quiet_NaN());
    }
}

// Both zeros, subnormals, the limits, infinities, NaNs quiet and signalling, neighbours of one, and
// patterns that make ties.
template <typename T>
std::vector<T> special_values() {
    constexpr unsigned width = sizeof(T) * 8;
    constexpr unsigned digits = std::is_same_v<T, double> ? 52 : std::is_same_v<T, float> ? 23 : 0;
    unsigned fraction = digits;
    if constexpr (is_short_float<T>) fraction = T::digits - 1;
    const std::uint64_t one = std::uint64_t{1} << fraction;
    const std::uint64_t infinity = (std::uint64_t{1} << (width - 1)) - one;
    const std::uint64_t unit = (infinity >> 1) & ~(one - 1);  // 1.0
    std::vector<std::uint64_t> patterns = {0,
                                           1,
                                           2,
                                           3,
                                           one / 2,
                                           one - 1,
                                           one,
                                           one + 1,
                                           unit - 1,
                                           unit,
                                           unit + 1,
                                           unit + 2,
                                           unit + 3,
                                           unit + one / 2,
                                           infinity,
                                           infinity + 1,
                                           infinity - 1,
                                           infinity + one / 2,
                                           infinity + one / 2 + 5,
                                           infinity - one};
    std::mt19937_64 random(5);
    for (int i = 0; i < 25; ++i)
        patterns.push_back(random() % infinity);
    // Pairs whose sums lie half-way between two results.
    for (unsigned gap = 1; gap <= fraction + 2; gap += 3)
        patterns.push_back(unit - gap * one);
    std::vector<T> values;
    for (const std::uint64_t pattern : patterns) {
        for (const std::uint64_t sign : {std::uint64_t{0}, std::uint64_t{1} << (width - 1)}) {
            const std::uint64_t bits = pattern | sign;
            T value;
            std::memcpy(&value, &bits, sizeof value);
            values.push_back(value);
        }
    }
    return values;
}

template <typename T>
double number(T value) {
    if constexpr (is_short_float<T>) {
        return value.value();
    } else {
        return static_cast<double>(value);
    }
}

template <typename T>
double expected_of(mpib_op op, T first, T second) {
    const double a = number(first);
    const double b = number(second);
    switch (op) {
        case MPIB_SUM:
            return rounded<T>(a + b);
        case MPIB_AVERAGE:
            // Of floats and doubles the sum is rounded, then the quotient.
            return rounded<T>((is_short_float<T> ? static_cast<double>(static_cast<float>(a + b))
                                                 : rounded<T>(a + b)) /
                              2);
        case MPIB_PRODUCT:
            return rounded<T>(is_short_float<T> ? static_cast<double>(static_cast<float>(a * b))
                                                : a * b);
        case MPIB_MIN:
            return std::isnan(a) || std::isnan(b) ? a + b : std::min(a, b);
        default:
            return std::isnan(a) || std::isnan(b) ? a + b : std::max(a, b);
    }
}

template <typename T>
void check_pairs(const Reduction& reduction, mpib_op op) {
    const auto values = special_values<T>();
    std::vector<T> first;
    std::vector<T> second;
    for (const T a : values) {
        for (const T b : values) {
            first.push_back(a);
            second.push_back(b);
        }
    }
    const std::size_t count = first.size();
    const void* sources[] = {first.data(), second.data()};
    std::vector<T> together(count);
    reduction.combine(together.data(), sources, 2, count, 2);
    for (std::size_t i = 0; i < count; ++i) {
        const double expected = expected_of<T>(op, first[i], second[i]);
        const void* pair[] = {&first[i], &second[i]};
        T alone{};
        reduction.combine(&alone, pair, 2, 1, 2);
        ASSERT_EQ(bits_of(alone), bits_of(together[i])) << "item " << i << " alone";
        if (std::isnan(expected)) {
            ASSERT_TRUE(is_the_nan(together[i])) << i;
        } else {
            ASSERT_EQ(number(together[i]), expected)
                << number(first[i]) << " and " << number(second[i]);
            if (op <= MPIB_AVERAGE || op == MPIB_PRODUCT) {
                ASSERT_EQ(std::signbit(number(together[i])), std::signbit(expected)) << i;
            }
        }
    }
}

TEST(Rounding, IsToNearestEvenForEverySpecialPair) {
    for_every_reduction([](const Reduction& reduction, mpib_datatype datatype, mpib_op op) {
        with_type(datatype, [&](auto type) {
            using T = decltype(type);
            if constexpr (!std::is_integral_v<T>) check_pairs<T>(reduction, op);
        });
    });
}

// Every 16-bit pattern survives the way through the accumulator, NaN as the one NaN.
template <typename T>
void check_every_pattern(const Reduction& reduction) {
    std::vector<T> all(65536);
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i].bits = static_cast<std::uint16_t>(i);
    std::vector<float> wide(all.size());
    reduction.load(wide.data(), all.data(), all.size());
    std::vector<T> back(all.size());
    reduction.store(back.data(), wide.data(), all.size(), 1);
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (std::isnan(all[i].value())) {
            ASSERT_TRUE(std::isnan(wide[i]) && is_the_nan(back[i])) << i;
        } else {
            ASSERT_EQ(static_cast<double>(wide[i]), all[i].value()) << i;
            ASSERT_EQ(back[i].bits, all[i].bits);
        }
    }
}

TEST(Rounding, KeepsEverySixteenBitNumber) {
    for_every_reduction([](const Reduction& reduction, mpib_datatype datatype, mpib_op op) {
        if (op != MPIB_SUM) return;
        if (datatype == MPIB_FLOAT16) check_every_pattern<Half>(reduction);
        if (datatype == MPIB_BFLOAT16) check_every_pattern<Brain>(reduction);
    });
}

TEST(Rounding, OfStoredHalvesIsToNearestEven) {
    const std::vector<float> between = {
        1.0F + 0x1p-11F, 1.0F + 3 * 0x1p-11F, 65519.0F,  65520.0F,
        0x1p-25F,        0x1.8p-24F,          -65520.0F, 0x1.1p-25F};
    const std::vector<std::uint16_t> expected = {0x3c00, 0x3c02, 0x7bff, 0x7c00,
                                                 0x0000, 0x0002, 0xfc00, 0x0001};
    for_every_reduction([&](const Reduction& reduction, mpib_datatype datatype, mpib_op op) {
        if (datatype != MPIB_FLOAT16 || op == MPIB_AVERAGE) return;
        std::vector<std::uint16_t> result(expected.size());
        reduction.store(result.data(), between.data(), between.size(), 1);
        EXPECT_EQ(result, expected);
    });
}

}  // namespace
