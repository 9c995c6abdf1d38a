// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

namespace {

using namespace mpi_bridge_test;

template <typename T>
void check_allreduce(const Algorithm<Allreduce>& algorithm, int size, std::size_t count,
                     mpib_datatype datatype, mpib_op op, bool in_place,
                     std::size_t segment_bytes = short_segment) {
    const auto data = make_data<T>(size, count);
    std::vector<std::vector<T>> results(data.size(), poisoned<T>(count));
    if (in_place) results = data;
    const auto* reduction = mpi_bridge::find_reduction(datatype, op);
    run(
        size,
        [&](Conversation& talk) {
            const std::byte* send = in_place ? in(results[own(talk)]) : in(data[own(talk)]);
            return algorithm.run(talk, *reduction, send, out(results[own(talk)]), count);
        },
        segment_bytes);
    expect_reduced(results[0], 0, data, op);
    for (const auto& result : results)
        EXPECT_TRUE(same_bits(result, results[0])) << "ranks differ in bits";
}

Done recursive_tripling(Conversation& talk, const Reducer& reducer, const std::byte* send,
                        std::byte* recv, std::size_t count) {
    return mpi_bridge::allreduce_recursive_multiplying(talk, reducer, send, recv, count, 3);
}

class AllreduceTest : public testing::TestWithParam<Algorithm<Allreduce>> {};

TEST_P(AllreduceTest, IsRightForEveryRankCountAndLength) {
    for (const int size : rank_counts) {
        for (const std::size_t count : counts) {
            for (const bool in_place : {false, true}) {
                check_allreduce<float>(GetParam(), size, count, MPIB_FLOAT32, MPIB_SUM, in_place);
            }
        }
    }
}

TEST_P(AllreduceTest, IsRightForEveryDatatypeAndOperation) {
    for (const auto datatype : all_datatypes) {
        for (const auto op : all_ops) {
            for (const bool in_place : {false, true}) {
                with_type(datatype, [&](auto type) {
                    check_allreduce<decltype(type)>(GetParam(), 5, 131, datatype, op, in_place);
                });
            }
        }
    }
}

TEST_P(AllreduceTest, IsRightWhereChunksDecideTheLengthOfSegments) {
    constexpr std::size_t long_segment = 256UL * 1024;
    constexpr std::size_t shortest = 32UL * 1024 / sizeof(float);  // of a ring's segments
    for (const std::size_t count : {shortest * 2 - 1, shortest * 2 + 1, shortest * 8 + 3}) {
        check_allreduce<float>(GetParam(), 2, count, MPIB_FLOAT32, MPIB_SUM, true, long_segment);
        check_allreduce<float>(GetParam(), 3, count, MPIB_FLOAT32, MPIB_SUM, true, long_segment);
    }
}

TEST_P(AllreduceTest, ReducesAccumulatorsWithoutFinishingThem) {
    constexpr std::size_t count = 131;
    for (const auto& [datatype, op] :
         {std::pair(MPIB_BFLOAT16, MPIB_SUM), std::pair(MPIB_FLOAT32, MPIB_AVERAGE),
          std::pair(MPIB_INT64, MPIB_AVERAGE)}) {
        with_type(datatype, [&, kind = datatype, operation = op](auto type) {
            using T = decltype(type);
            constexpr int size = 5;
            const auto data = make_data<T>(size, count);
            const auto& reduction = *mpi_bridge::find_reduction(kind, operation);
            std::vector<std::vector<std::byte>> partial;
            for (const auto& values : data)
                partial.push_back(loaded(reduction, values));
            run(size, [&](Conversation& talk) {
                auto& mine = partial[own(talk)];
                return GetParam().run(talk, mpi_bridge::accumulators_of(reduction), mine.data(),
                                      mine.data(), count);
            });
            std::vector<T> result(count);
            reduction.store(result.data(), partial[0].data(), count, size);
            expect_reduced(result, 0, data, operation);
            for (const auto& accumulators : partial)
                EXPECT_EQ(accumulators, partial[0]);
        });
    }
}

TEST_P(AllreduceTest, TakesAnyByteForTrue) {
    const auto* every = mpi_bridge::find_reduction(MPIB_BOOL, MPIB_AND);
    constexpr std::size_t count = 100;
    std::vector<std::vector<std::uint8_t>> truths;
    for (int rank = 0; rank < 3; ++rank)
        truths.emplace_back(count, static_cast<std::uint8_t>(1U << rank));
    run(3, [&](Conversation& talk) {
        auto& mine = truths[own(talk)];
        return GetParam().run(talk, *every, in(mine), out(mine), count);
    });
    for (const auto& result : truths)
        EXPECT_EQ(result, std::vector<std::uint8_t>(count, 1));
}

INSTANTIATE_TEST_SUITE_P(Table, AllreduceTest, testing::ValuesIn(algorithms<Allreduce>()),
                         algorithm_name<Allreduce>);
INSTANTIATE_TEST_SUITE_P(OtherRadix, AllreduceTest,
                         testing::Values(Algorithm<Allreduce>{.name = "recursive_tripling",
                                                              .estimate = nullptr,
                                                              .run = recursive_tripling}),
                         algorithm_name<Allreduce>);

}  // namespace
