// SPDX-License-Identifier: Apache-2.0
#include "reduce/reduction.hpp"

#include <gtest/gtest.h>

#include "reference.hpp"

namespace {

using namespace mpi_bridge_test;
using mpi_bridge::Reduction;

// Around the width of a vector and the length of a conversion block.
constexpr std::size_t lengths[] = {0, 1, 7, 8, 9, 127, 128, 129, 1000};

// Reduces the inputs the way the ring does: load the first, add the others, store.
template <typename T>
std::vector<T> reduce(const Reduction& reduction, const std::vector<std::vector<T>>& inputs) {
    const std::size_t count = inputs[0].size();
    // Sixteen bytes per item hold the widest accumulator.
    std::vector<long double> accumulators(count + 1);
    reduction.load(accumulators.data(), inputs[0].data(), count);
    for (std::size_t i = 1; i < inputs.size(); ++i) {
        reduction.add(accumulators.data(), inputs[i].data(), count);
    }
    std::vector<T> result(count);
    std::fill_n(reinterpret_cast<unsigned char*>(result.data()), count * sizeof(T), 0xA5);
    reduction.store(result.data(), accumulators.data(), count, static_cast<int>(inputs.size()));
    return result;
}

TEST(Reduction, AgreesWithTheReferenceAndAcrossInstructionSets) {
    for (const auto datatype : all_datatypes) {
        for (const auto op : all_ops) {
            for (const std::size_t count : lengths) {
                with_type(datatype, [&](auto type) {
                    using T = decltype(type);
                    std::vector<std::vector<T>> inputs;
                    for (std::uint64_t seed = 0; seed < 6; ++seed) {
                        inputs.push_back(random_values<T>(count, seed));
                    }
                    const auto best = reduce(*mpi_bridge::find_reduction(datatype, op), inputs);
                    const auto portable =
                        reduce(*mpi_bridge::find_portable_reduction(datatype, op), inputs);
                    for (std::size_t i = 0; i < count; ++i) {
                        std::vector<T> items;
                        for (const auto& input : inputs)
                            items.push_back(input[i]);
                        ASSERT_TRUE(is_right(best[i], items, op))
                            << "datatype " << datatype << ", operation " << op;
                    }
                    EXPECT_TRUE(count == 0 ||
                                std::memcmp(best.data(), portable.data(), count * sizeof(T)) == 0);
                });
            }
        }
    }
}

// Every 16-bit pattern survives the way through the accumulator, NaN as NaN.
template <typename T>
void check_every_pattern(mpib_datatype datatype) {
    std::vector<T> all(65536);
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i].bits = static_cast<std::uint16_t>(i);
    for (const auto* reduction : {mpi_bridge::find_reduction(datatype, MPIB_SUM),
                                  mpi_bridge::find_portable_reduction(datatype, MPIB_SUM)}) {
        std::vector<float> wide(all.size());
        reduction->load(wide.data(), all.data(), all.size());
        std::vector<T> back(all.size());
        reduction->store(back.data(), wide.data(), all.size(), 1);
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (std::isnan(all[i].value())) {
                ASSERT_TRUE(std::isnan(wide[i]) && std::isnan(back[i].value())) << i;
            } else {
                ASSERT_EQ(static_cast<double>(wide[i]), all[i].value()) << i;
                ASSERT_EQ(back[i].bits, all[i].bits);
            }
        }
    }
}

TEST(Reduction, KeepsEveryHalf) {
    check_every_pattern<Half>(MPIB_FLOAT16);
}
TEST(Reduction, KeepsEveryBrainFloat) {
    check_every_pattern<Brain>(MPIB_BFLOAT16);
}

TEST(Reduction, RoundsHalvesToNearestEven) {
    const std::vector<float> between = {
        1.0F + 0x1p-11F, 1.0F + 3 * 0x1p-11F, 65519.0F,  65520.0F,
        0x1p-25F,        0x1.8p-24F,          -65520.0F, 0x1.1p-25F};
    const std::vector<std::uint16_t> rounded = {0x3c00, 0x3c02, 0x7bff, 0x7c00,
                                                0x0000, 0x0002, 0xfc00, 0x0001};
    for (const auto* reduction : {mpi_bridge::find_reduction(MPIB_FLOAT16, MPIB_SUM),
                                  mpi_bridge::find_portable_reduction(MPIB_FLOAT16, MPIB_SUM)}) {
        std::vector<std::uint16_t> result(rounded.size());
        reduction->store(result.data(), between.data(), between.size(), 1);
        EXPECT_EQ(result, rounded);
    }
}

TEST(Reduction, AveragesHalvesWhoseSumOverflows) {
    const std::vector<std::vector<Half>> inputs(4, std::vector<Half>(3, Half::from(60000)));
    for (const Half half :
         reduce(*mpi_bridge::find_reduction(MPIB_FLOAT16, MPIB_AVERAGE), inputs)) {
        EXPECT_EQ(half.value(), Half::from(60000).value());
    }
}

TEST(Reduction, AveragesIntegersWhoseSumOverflows) {
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    const std::vector<std::vector<std::int64_t>> inputs(49, std::vector<std::int64_t>(2, most));
    const auto result = reduce(*mpi_bridge::find_reduction(MPIB_INT64, MPIB_AVERAGE), inputs);
    EXPECT_EQ(result, std::vector<std::int64_t>(2, most));
}

TEST(Reduction, LetsNanThroughMinimumAndMaximum) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (const auto op : {MPIB_MIN, MPIB_MAX}) {
        const auto* reduction = mpi_bridge::find_reduction(MPIB_FLOAT32, op);
        EXPECT_TRUE(std::isnan(reduce<float>(*reduction, {{nan}, {1}})[0]));
        EXPECT_TRUE(std::isnan(reduce<float>(*reduction, {{1}, {nan}})[0]));
    }
}

TEST(Reduction, IsNotFoundForUnknownPairs) {
    EXPECT_EQ(mpi_bridge::find_reduction(static_cast<mpib_datatype>(9), MPIB_SUM), nullptr);
    EXPECT_EQ(mpi_bridge::find_reduction(MPIB_INT8, static_cast<mpib_op>(5)), nullptr);
}

}  // namespace
