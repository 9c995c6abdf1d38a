// SPDX-License-Identifier: Apache-2.0
//
// Reductions as NCCL would carry them out in their wire format: the real packing and unpacking, and
// between them what NCCL promises of its operations, written down here.
#include <cmath>

#include <gtest/gtest.h>

#include "../reference.hpp"
#include "gpu/wire/format.hpp"
#include "packing.hpp"

namespace {

using namespace mpi_bridge;
using namespace mpi_bridge_test;

template <typename T>
T combine(nccl::RedOp op, T a, T b) {
    if (op == nccl::minimum) return b < a ? b : a;
    if (op == nccl::maximum) return a < b ? b : a;
    if constexpr (std::is_integral_v<T>) {
        const std::uint64_t x = static_cast<std::make_unsigned_t<T>>(a);
        const std::uint64_t y = static_cast<std::make_unsigned_t<T>>(b);
        return static_cast<T>(op == nccl::product ? x * y : x + y);
    } else {
        return op == nccl::product ? a * b : a + b;
    }
}

// Over `ranks` arrays of NCCL's type; 16-bit floats are summed in 32 bits here, which is no more
// exact than it must be for the tests' tolerance.
template <typename T>
std::vector<std::byte> reduce_as_nccl(const std::vector<std::vector<std::byte>>& wires,
                                      nccl::RedOp op, double factor) {
    std::vector<std::byte> result = wires[0];
    const auto load = [](const std::vector<std::byte>& from, std::size_t i) {
        T item{};
        std::memcpy(&item, from.data() + i * sizeof(T), sizeof(T));
        return item;
    };
    for (std::size_t i = 0; i < result.size() / sizeof(T); ++i) {
        T total{};
        if constexpr (is_short_float<T>) {
            float sum = 0;
            for (std::size_t rank = 0; rank < wires.size(); ++rank) {
                const auto item = static_cast<float>(load(wires[rank], i).value() * factor);
                sum = rank == 0 ? item : combine(op, sum, item);
            }
            total = T::from(sum);
        } else {
            for (std::size_t rank = 0; rank < wires.size(); ++rank) {
                T item = load(wires[rank], i);
                if constexpr (std::is_floating_point_v<T>) item *= static_cast<T>(factor);
                total = rank == 0 ? item : combine(op, total, item);
            }
        }
        std::memcpy(result.data() + i * sizeof(T), &total, sizeof(T));
    }
    return result;
}

std::vector<std::byte> reduce_as_nccl(const std::vector<std::vector<std::byte>>& wires,
                                      const WireFormat& format) {
    switch (format.type) {
        case nccl::int8:
            return reduce_as_nccl<std::int8_t>(wires, format.op, 1);
        case nccl::uint8:
            return reduce_as_nccl<std::uint8_t>(wires, format.op, 1);
        case nccl::int32:
            return reduce_as_nccl<std::int32_t>(wires, format.op, 1);
        case nccl::int64:
            return reduce_as_nccl<std::int64_t>(wires, format.op, 1);
        case nccl::float16:
            return reduce_as_nccl<Half>(wires, format.op, format.factor_in_sum);
        case nccl::bfloat16:
            return reduce_as_nccl<Brain>(wires, format.op, format.factor_in_sum);
        case nccl::float32:
            return reduce_as_nccl<float>(wires, format.op, format.factor_in_sum);
        case nccl::float64:
            break;
    }
    return reduce_as_nccl<double>(wires, format.op, format.factor_in_sum);
}

template <typename T>
std::vector<T> allreduce(const WireFormat& format, std::vector<std::vector<T>> inputs) {
    const std::size_t count = inputs[0].size();
    const std::size_t wire_bytes = shape_of(format.packing).wire_bytes;
    kernels::Arguments arguments{};
    arguments.divisor = format.divisor;
    arguments.nan_is_least = format.nan_is_least ? 1 : 0;
    arguments.elements = count;
    arguments.pieces = 1;
    std::vector<std::vector<std::byte>> wires;
    for (auto& input : inputs) {
        auto& wire = wires.emplace_back(count * wire_bytes);
        arguments.factor = format.pack_factor;
        arguments.bucket = reinterpret_cast<std::uintptr_t>(wire.data());
        arguments.piece[0] = {reinterpret_cast<std::uintptr_t>(input.data()), 0, count};
        run_on_host(format.packing, Way::pack, arguments);
    }
    auto sum = reduce_as_nccl(wires, format);
    std::vector<T> result(count);
    arguments.factor = format.unpack_factor;
    arguments.bucket = reinterpret_cast<std::uintptr_t>(sum.data());
    arguments.piece[0].address = reinterpret_cast<std::uintptr_t>(result.data());
    run_on_host(format.unpacking, Way::unpack, arguments);
    return result;
}

constexpr std::size_t count = 200;
constexpr mpib_op common_ops[] = {MPIB_SUM, MPIB_AVERAGE, MPIB_MIN, MPIB_MAX, MPIB_PRODUCT};
constexpr mpib_datatype numbers[] = {MPIB_UINT8,    MPIB_INT8,    MPIB_INT16,
                                     MPIB_INT32,    MPIB_INT64,   MPIB_FLOAT16,
                                     MPIB_BFLOAT16, MPIB_FLOAT32, MPIB_FLOAT64};

template <typename T>
std::vector<std::vector<T>> make_inputs(int ranks) {
    std::vector<std::vector<T>> inputs;
    for (int rank = 0; rank < ranks; ++rank)
        inputs.push_back(random_values<T>(count, static_cast<std::uint64_t>(rank) + 40));
    return inputs;
}

TEST(WireFormat, GivesWhatTheApiPromisesForEveryTypeAndOperation) {
    for (const int ranks : {1, 2, 3, 7}) {
        for (const mpib_datatype datatype : numbers) {
            for (const mpib_op op : common_ops) {
                with_type(datatype, [&](auto type) {
                    using T = decltype(type);
                    // Sums in 16 bits are NCCL's own and rounded as it likes.
                    if (is_short_float<T> && op != MPIB_MIN && op != MPIB_MAX) return;
                    const auto inputs = make_inputs<T>(ranks);
                    const auto format = wire_format({datatype, op, 1, 1}, ranks);
                    ASSERT_TRUE(format);
                    ASSERT_EQ(format->for_bucket().factor_in_sum, 1);
                    for (const WireFormat& each : {*format, format->for_bucket()}) {
                        const auto result = allreduce(each, inputs);
                        for (std::size_t i = 0; i < count; ++i) {
                            std::vector<T> items;
                            for (const auto& input : inputs)
                                items.push_back(input[i]);
                            ASSERT_TRUE(is_right(result[i], items, op))
                                << "datatype " << datatype << ", operation " << op << ", " << ranks;
                        }
                    }
                });
            }
        }
    }
}

TEST(WireFormat, AveragesOfShortFloatsAreNotBiasedByTheFactor) {
    for (const auto datatype : {MPIB_FLOAT16, MPIB_BFLOAT16}) {
        with_type(datatype, [&](auto type) {
            using T = decltype(type);
            if constexpr (is_short_float<T>) {
                // Three ranks with the same number: its average is that number, bit for bit.
                const auto values = random_values<T>(count, 77);
                const auto format = wire_format({datatype, MPIB_AVERAGE, 1, 1}, 3);
                EXPECT_EQ(format->factor_in_sum, 0.25);
                for (const WireFormat& each : {*format, format->for_bucket()}) {
                    const auto result = allreduce(each, std::vector{values, values, values});
                    int wrong = 0;
                    for (std::size_t i = 0; i < count; ++i) {
                        const double error = std::fabs(result[i].value() - values[i].value());
                        // The sum of three was cut to the type's digits, nothing more.
                        EXPECT_LE(error, std::ldexp(std::fabs(values[i].value()), 2 - T::digits));
                        if (error != 0) ++wrong;
                    }
                    EXPECT_LT(wrong, static_cast<int>(count));
                }
            }
        });
    }
}

TEST(WireFormat, FoldsAllFactorsOfASumIntoOne) {
    const auto format = wire_format({MPIB_FLOAT32, MPIB_AVERAGE, 3, 0.5}, 4);
    ASSERT_TRUE(format);
    EXPECT_EQ(format->factor_in_sum, 3 * 0.5 / 4);
    EXPECT_TRUE(format->direct());
    EXPECT_TRUE(is_copy(format->unpacking));
    const auto large = wire_format({MPIB_FLOAT16, MPIB_SUM, 8, 1}, 4);
    EXPECT_EQ(large->factor_in_sum, 1) << "must not overflow before the sum";
    EXPECT_EQ(large->unpack_factor, 8);
    const auto tiny = wire_format({MPIB_FLOAT16, MPIB_SUM, 1e-9, 1}, 4);
    EXPECT_EQ(tiny->factor_in_sum, 0x1p-14);
    EXPECT_DOUBLE_EQ(tiny->factor_in_sum * tiny->unpack_factor, 1e-9);
    EXPECT_EQ(wire_format({MPIB_BFLOAT16, MPIB_SUM, 0, 1}, 4)->unpack_factor, 0);
}

TEST(WireFormat, AppliesFactorsOfASumInTheKernelsOfABucket) {
    const auto wide = wire_format({MPIB_FLOAT32, MPIB_AVERAGE, 3, 0.5}, 4)->for_bucket();
    EXPECT_EQ(wide.pack_factor * wide.unpack_factor, 3 * 0.5 / 4);
    EXPECT_EQ(wide.unpacking, Codec::scale_f32);
    const auto more = wire_format({MPIB_FLOAT64, MPIB_SUM, 3, 1}, 4)->for_bucket();
    EXPECT_TRUE(is_copy(more.packing));
    EXPECT_EQ(more.unpack_factor, 3);
    const auto half = wire_format({MPIB_FLOAT32, MPIB_AVERAGE, 1, 1}, 2)->for_bucket();
    EXPECT_EQ(half.pack_factor, 0.5);
    EXPECT_TRUE(is_copy(half.unpacking));
    // The power of two comes before the sum, which could overflow.
    const std::vector large(count, 3e38F);
    EXPECT_EQ(allreduce(half, std::vector{large, large}), large);
    const auto narrow = wire_format({MPIB_FLOAT16, MPIB_AVERAGE, 1, 1}, 3)->for_bucket();
    EXPECT_EQ(narrow.pack_factor, 0.25);
    EXPECT_DOUBLE_EQ(narrow.pack_factor * narrow.unpack_factor, 1.0 / 3);
    const auto none = wire_format({MPIB_FLOAT32, MPIB_SUM, 1, 1}, 3)->for_bucket();
    EXPECT_TRUE(is_copy(none.packing) && is_copy(none.unpacking));
}

TEST(WireFormat, AppliesFactorsAroundWhatIsNotLinear) {
    const auto format = wire_format({MPIB_FLOAT64, MPIB_PRODUCT, 2, 0.5}, 3);
    const auto inputs = make_inputs<double>(3);
    const auto result = allreduce(*format, inputs);
    for (std::size_t i = 0; i < count; ++i) {
        const double product = 8 * inputs[0][i] * inputs[1][i] * inputs[2][i] * 0.5;
        EXPECT_NEAR(result[i], product, std::fabs(product) * 0x1p-50);
    }
}

TEST(WireFormat, MinimumAndMaximumLetNanWin) {
    const float nan = std::nanf("");
    for (const mpib_op op : {MPIB_MIN, MPIB_MAX}) {
        const auto format = wire_format({MPIB_FLOAT32, op, 1, 1}, 2);
        const auto result = allreduce(
            *format, std::vector<std::vector<float>>{{1, nan, -nan, -0.0F}, {nan, 2, 3, 0.0F}});
        EXPECT_TRUE(std::isnan(result[0]) && std::isnan(result[1]) && std::isnan(result[2]));
        EXPECT_EQ(std::signbit(result[3]), op == MPIB_MIN);
    }
}

TEST(WireFormat, TruthIsReducedAsMinimumAndMaximum) {
    using Bytes = std::vector<std::uint8_t>;
    const std::vector<Bytes> inputs = {{0, 2, 0, 255}, {0, 0, 7, 1}};
    EXPECT_EQ(allreduce(*wire_format({MPIB_BOOL, MPIB_AND, 1, 1}, 2), inputs), (Bytes{0, 0, 0, 1}));
    EXPECT_EQ(allreduce(*wire_format({MPIB_BOOL, MPIB_OR, 1, 1}, 2), inputs), (Bytes{0, 1, 1, 1}));
}

TEST(WireFormat, RefusesWhatCannotBe) {
    const auto refused = [](const DeviceReduction& reduction) {
        const auto wire = wire_format(reduction, 2);
        return !wire && wire.error().status == MPIB_ERROR_INVALID_ARGUMENT;
    };
    EXPECT_TRUE(refused({static_cast<mpib_datatype>(15), MPIB_SUM, 1, 1}));
    EXPECT_TRUE(refused({MPIB_FLOAT32, static_cast<mpib_op>(7), 1, 1}));
    EXPECT_TRUE(refused({MPIB_FLOAT32, MPIB_AND, 1, 1}));
    EXPECT_TRUE(refused({MPIB_BOOL, MPIB_SUM, 1, 1}));
    EXPECT_TRUE(refused({MPIB_BOOL, MPIB_AND, 2, 1}));
    EXPECT_TRUE(refused({MPIB_FLOAT32, MPIB_SUM, std::nan(""), 1}));
    EXPECT_TRUE(refused({MPIB_INT32, MPIB_AND, 1, 1}));
    EXPECT_TRUE(staged_format({MPIB_INT32, MPIB_AND, 1, 1}));
    EXPECT_FALSE(staged_format({MPIB_FLOAT32, MPIB_OR, 1, 1}));
}

}  // namespace
