// SPDX-License-Identifier: Apache-2.0
#include "tables.hpp"

namespace {

using namespace mpi_bridge_test;
using mpi_bridge::Reduction;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

// The one integer that `value` truncates to or, beyond the type's range, saturates to.
template <typename T>
T truncated(double value) {
    using Limits = std::numeric_limits<T>;
    if (std::isnan(value)) return 0;
    const long double whole = std::trunc(static_cast<long double>(value));
    if (whole <= static_cast<long double>(Limits::min())) return Limits::min();
    if (whole >= static_cast<long double>(Limits::max())) return Limits::max();
    return static_cast<T>(whole);
}

template <typename T>
bool is_scaled(T result, T value, double factor) {
    if constexpr (std::is_integral_v<T>) {
        return result == truncated<T>(static_cast<double>(value) * factor);
    } else {
        const long double exact =
            to_real(value) * (sizeof(T) == 8
                                  ? static_cast<long double>(factor)
                                  : static_cast<long double>(static_cast<float>(factor)));
        long double error = std::fabs(exact) * (sizeof(T) == 8 ? 0x1p-53L : 0x1p-24L);
        if constexpr (is_short_float<T>) error += std::fabs(std::ldexp(exact, -T::digits));
        return std::fabs(to_real(result) - exact) <= error;
    }
}

TEST(Scale, MultipliesEveryTypeInPlace) {
    for_every_reduction([](const Reduction& reduction, mpib_datatype datatype, mpib_op op) {
        if (op != MPIB_MAX || datatype == MPIB_BOOL) return;
        const auto& portable = *mpi_bridge::find_portable_reduction(datatype, op);
        for (const double factor : {1.0, 0.5, 1.0 / 3, -2.75, 16.0, 0.0}) {
            for (const std::size_t count : {0UL, 1UL, 15UL, 16UL, 17UL, 1001UL}) {
                with_type(datatype, [&](auto type) {
                    using T = decltype(type);
                    const auto values = random_values<T>(count, 3);
                    auto result = values;
                    auto same = values;
                    reduction.scale(result.data(), count, factor);
                    portable.scale(same.data(), count, factor);
                    for (std::size_t i = 0; i < count; ++i) {
                        ASSERT_TRUE(factor == 1.0 ? to_real(result[i]) == to_real(values[i])
                                                  : is_scaled(result[i], values[i], factor))
                            << "factor " << factor << ", item " << i;
                    }
                    ASSERT_TRUE(count == 0 ||
                                std::memcmp(result.data(), same.data(), count * sizeof(T)) == 0)
                        << "factor " << factor;
                });
            }
        }
    });
}

template <typename T>
void check_saturation(const Reduction& reduction) {
    using Limits = std::numeric_limits<T>;
    std::vector<T> values;
    for (int i = 0; i < 15; ++i)
        values.insert(values.end(), {Limits::max(), T{0}, Limits::min(), T{1}, T{77}});
    for (const double factor :
         {1e30, -1e30, infinity, -infinity, not_a_number, 1.0 + 0x1p-52, 2.0, -1.0, 0.999}) {
        auto result = values;
        reduction.scale(result.data(), result.size(), factor);
        for (std::size_t i = 0; i < values.size(); ++i) {
            ASSERT_EQ(result[i], truncated<T>(static_cast<double>(values[i]) * factor))
                << "factor " << factor << " of " << +values[i];
        }
    }
}

TEST(Scale, SaturatesIntegersAndMakesNanZero) {
    for_every_reduction([](const Reduction& reduction, mpib_datatype datatype, mpib_op) {
        if (datatype == MPIB_BOOL) return;
        with_type(datatype, [&](auto type) {
            using T = decltype(type);
            if constexpr (std::is_integral_v<T>) check_saturation<T>(reduction);
        });
    });
}

TEST(Scale, KeepsSixtyFourBitIntegersUnderAFactorOfOne) {
    std::int64_t value = std::numeric_limits<std::int64_t>::max() - 1;
    mpi_bridge::find_reduction(MPIB_INT64, MPIB_AVERAGE)->scale(&value, 1, 1.0);
    EXPECT_EQ(value, std::numeric_limits<std::int64_t>::max() - 1);
}

}  // namespace
