// SPDX-License-Identifier: Apache-2.0
#include "tables.hpp"

namespace {

using namespace mpi_bridge_test;
using mpi_bridge::Reduction;

TEST(Truth, IsAnyByteButZeroAndResultsAreZeroOrOne) {
    std::mt19937 random(7);
    constexpr std::size_t count = 1003;
    constexpr std::size_t ranks = 3;
    std::vector<Bytes> inputs(ranks, Bytes(count));
    for (auto& input : inputs) {
        for (auto& byte : input)
            byte = random() % 2 == 0 ? 0 : static_cast<unsigned char>(1 + random() % 255);
    }
    const void* sources[ranks] = {inputs[0].data(), inputs[1].data(), inputs[2].data()};
    for_every_reduction([&](const Reduction& reduction, mpib_datatype datatype, mpib_op op) {
        if (datatype != MPIB_BOOL) return;
        const bool wants_all = op == MPIB_AND || op == MPIB_MIN;
        Bytes result(count, 0xA5);
        reduction.combine(result.data(), sources, ranks, count, static_cast<int>(ranks));
        for (std::size_t i = 0; i < count; ++i) {
            const int truths = (inputs[0][i] != 0 ? 1 : 0) + (inputs[1][i] != 0 ? 1 : 0) +
                               (inputs[2][i] != 0 ? 1 : 0);
            const bool expected = wants_all ? truths == 3 : truths > 0;
            ASSERT_EQ(result[i], expected ? 1 : 0) << "item " << i;
        }
        EXPECT_EQ(reduction.scale, nullptr);
    });
}

TEST(Truth, IsHowBitwiseOperationsOfIntegersDiffer) {
    for_every_reduction([&](const Reduction& reduction, mpib_datatype datatype, mpib_op op) {
        if (op != MPIB_AND && op != MPIB_OR) return;
        if (datatype == MPIB_BOOL) return;
        with_type(datatype, [&](auto type) {
            using T = decltype(type);
            if constexpr (std::is_integral_v<T>) {
                const std::vector<std::vector<T>> inputs = {
                    random_values<T>(99, 1), random_values<T>(99, 2), random_values<T>(99, 3)};
                const void* sources[] = {inputs[0].data(), inputs[1].data(), inputs[2].data()};
                std::vector<T> result(99);
                reduction.combine(result.data(), sources, 3, result.size(), 3);
                for (std::size_t i = 0; i < result.size(); ++i) {
                    ASSERT_TRUE(
                        is_right(result[i], {inputs[0][i], inputs[1][i], inputs[2][i]}, op));
                }
            } else {
                FAIL() << "floating-point numbers have no bitwise operations";
            }
        });
    });
}

}  // namespace
