// SPDX-License-Identifier: Apache-2.0
#include "tables.hpp"

namespace {

using namespace mpi_bridge_test;
using mpi_bridge::Reduction;

// Around the width of a vector and the length of a block.
constexpr std::size_t lengths[] = {0, 1, 7, 8, 9, 127, 128, 129, 1000, 5000};

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

TEST(Reduction, AgreesWithTheReference) {
    for_every_reduction([](const Reduction& reduction, mpib_datatype datatype, mpib_op op) {
        if (datatype == MPIB_BOOL) return;
        for (const std::size_t count : lengths) {
            with_type(datatype, [&](auto type) {
                using T = decltype(type);
                std::vector<std::vector<T>> inputs;
                for (std::uint64_t seed = 0; seed < 6; ++seed)
                    inputs.push_back(random_values<T>(count, seed));
                const auto result = reduce(reduction, inputs);
                for (std::size_t i = 0; i < count; ++i) {
                    std::vector<T> items;
                    for (const auto& input : inputs)
                        items.push_back(input[i]);
                    ASSERT_TRUE(is_right(result[i], items, op)) << "item " << i;
                }
            });
        }
    });
}

TEST(Reduction, AveragesHalvesWhoseSumOverflows) {
    const std::vector<std::vector<Half>> inputs(4, std::vector<Half>(3, Half::from(60000)));
    for (const Half half :
         reduce(*mpi_bridge::find_reduction(MPIB_FLOAT16, MPIB_AVERAGE), inputs)) {
        EXPECT_EQ(half.value(), Half::from(60000).value());
    }
}

TEST(Reduction, AveragesIntegersWhoseSumOverflows) {
    for_every_reduction([](const Reduction& reduction, mpib_datatype datatype, mpib_op op) {
        if (op != MPIB_AVERAGE) return;
        with_type(datatype, [&](auto type) {
            using T = decltype(type);
            if constexpr (std::is_integral_v<T>) {
                using Limits = std::numeric_limits<T>;
                for (const T extreme : {Limits::min(), Limits::max()}) {
                    const std::vector<std::vector<T>> inputs(49, std::vector<T>(37, extreme));
                    ASSERT_EQ(reduce(reduction, inputs), std::vector<T>(37, extreme));
                }
            }
        });
    });
}

TEST(Reduction, LetsNanThroughMinimumAndMaximum) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (const auto op : {MPIB_MIN, MPIB_MAX}) {
        const auto* reduction = mpi_bridge::find_reduction(MPIB_FLOAT32, op);
        EXPECT_TRUE(std::isnan(reduce<float>(*reduction, {{nan}, {1}})[0]));
        EXPECT_TRUE(std::isnan(reduce<float>(*reduction, {{1}, {nan}})[0]));
    }
}

}  // namespace
