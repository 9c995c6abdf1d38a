// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

namespace {

using namespace mpi_bridge_test;

// `in_place`: at the root; the others' recv is no memory at all.
template <typename T>
void check_reduce(const Algorithm<Reduce>& algorithm, int size, std::size_t count,
                  mpib_datatype datatype, mpib_op op, int root, bool in_place) {
    const auto data = make_data<T>(size, count);
    auto sent = data;
    auto& at_root = sent[static_cast<std::size_t>(root)];
    auto result = poisoned<T>(count);
    const auto* reduction = mpi_bridge::find_reduction(datatype, op);
    run(size, [&](Conversation& talk) {
        std::byte* recv = nullptr;
        if (talk.rank() == root) recv = in_place ? out(at_root) : out(result);
        return algorithm.run(talk, *reduction, in(sent[own(talk)]), recv, count, root);
    });
    expect_reduced(in_place ? at_root : result, 0, data, op);
    for (int rank = 0; rank < size; ++rank) {
        const auto index = static_cast<std::size_t>(rank);
        if (rank == root && in_place) continue;
        EXPECT_TRUE(same_bits(sent[index], data[index])) << "what was sent has changed";
    }
}

class ReduceTest : public testing::TestWithParam<Algorithm<Reduce>> {};

TEST_P(ReduceTest, IsRightForEveryRankCountRootAndLength) {
    for (const int size : rank_counts) {
        for (int root = 0; root<size; root += size> 8 ? 5 : 1) {
            for (const std::size_t count : counts) {
                const bool in_place = (count + static_cast<std::size_t>(root)) % 2 == 0;
                check_reduce<float>(GetParam(), size, count, MPIB_FLOAT32, MPIB_SUM, root,
                                    in_place);
            }
        }
    }
}

TEST_P(ReduceTest, IsRightForEveryDatatypeAndOperation) {
    for (const auto datatype : all_datatypes) {
        for (const auto op : all_ops) {
            with_type(datatype, [&](auto type) {
                check_reduce<decltype(type)>(GetParam(), 5, 131, datatype, op, 3, false);
            });
        }
    }
}

TEST_P(ReduceTest, ReducesAccumulatorsWithoutFinishingThem) {
    constexpr std::size_t count = 131;
    constexpr int size = 5;
    const auto data = make_data<std::int32_t>(size, count);
    const auto& average = *mpi_bridge::find_reduction(MPIB_INT32, MPIB_AVERAGE);
    std::vector<std::byte> partial(count * average.accumulator_bytes);
    run(size, [&](Conversation& talk) {
        const auto mine = loaded(average, data[own(talk)]);
        std::byte* recv = talk.rank() == 2 ? partial.data() : nullptr;
        return GetParam().run(talk, mpi_bridge::accumulators_of(average), mine.data(), recv, count,
                              2);
    });
    std::vector<std::int32_t> result(count);
    average.store(result.data(), partial.data(), count, size);
    expect_reduced(result, 0, data, MPIB_AVERAGE);
}

INSTANTIATE_TEST_SUITE_P(Table, ReduceTest, testing::ValuesIn(algorithms<Reduce>()),
                         algorithm_name<Reduce>);

}  // namespace
