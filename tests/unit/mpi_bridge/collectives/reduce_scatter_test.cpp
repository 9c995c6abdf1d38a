// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

namespace {

using namespace mpi_bridge_test;

template <typename T>
void check_reduce_scatter(const Algorithm<ReduceScatter>& algorithm,
                          const std::vector<std::size_t>& parts, mpib_datatype datatype,
                          mpib_op op) {
    std::size_t count = 0;
    std::vector<std::vector<T>> results;
    for (const std::size_t part : parts) {
        count += part;
        results.push_back(poisoned<T>(part));
    }
    const auto size = static_cast<int>(parts.size());
    const auto data = make_data<T>(size, count);
    const auto* reduction = mpi_bridge::find_reduction(datatype, op);
    run(size, [&](Conversation& talk) {
        return algorithm.run(talk, *reduction, in(data[own(talk)]), out(results[own(talk)]), parts);
    });
    std::size_t offset = 0;
    for (const auto& result : results) {
        expect_reduced(result, offset, data, op);
        offset += result.size();
    }
}

class ReduceScatterTest : public testing::TestWithParam<Algorithm<ReduceScatter>> {};

TEST_P(ReduceScatterTest, GivesEveryRankItsUnevenPart) {
    for (const int size : rank_counts) {
        for (const std::size_t count : counts) {
            std::vector<std::size_t> parts;
            std::size_t left = count;
            for (int rank = 0; rank < size; ++rank) {
                parts.push_back(rank == size - 1 ? left : (rank % 3 == 1 ? 0 : left / 2));
                left -= parts.back();
            }
            check_reduce_scatter<double>(GetParam(), parts, MPIB_FLOAT64, MPIB_SUM);
        }
    }
}

TEST_P(ReduceScatterTest, IsRightForEveryDatatypeAndOperation) {
    for (const auto datatype : all_datatypes) {
        for (const auto op : all_ops) {
            with_type(datatype, [&](auto type) {
                check_reduce_scatter<decltype(type)>(GetParam(), {31, 30, 0, 70, 1}, datatype, op);
            });
        }
    }
}

TEST_P(ReduceScatterTest, ReducesAccumulatorsWithoutFinishingThem) {
    constexpr std::size_t part = 43;
    constexpr int size = 3;
    const auto data = make_data<Brain>(size, part * size);
    const auto& sum = *mpi_bridge::find_reduction(MPIB_BFLOAT16, MPIB_SUM);
    const std::vector<std::size_t> parts(size, part);
    run(size, [&](Conversation& talk) {
        const auto mine = loaded(sum, data[own(talk)]);
        std::vector<std::byte> partial(part * sum.accumulator_bytes);
        auto done = GetParam().run(talk, mpi_bridge::accumulators_of(sum), mine.data(),
                                   partial.data(), parts);
        std::vector<Brain> result(part);
        sum.store(result.data(), partial.data(), part, size);
        expect_reduced(result, own(talk) * part, data, MPIB_SUM);
        return done;
    });
}

INSTANTIATE_TEST_SUITE_P(Table, ReduceScatterTest, testing::ValuesIn(algorithms<ReduceScatter>()),
                         algorithm_name<ReduceScatter>);

}  // namespace
