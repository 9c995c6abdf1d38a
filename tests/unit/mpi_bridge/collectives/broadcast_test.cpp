// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

namespace {

using namespace mpi_bridge_test;

class BroadcastTest : public testing::TestWithParam<Algorithm<Broadcast>> {};

TEST_P(BroadcastTest, ReachesEveryRankFromEveryRoot) {
    for (const int size : rank_counts) {
        for (int root = 0; root<size; root += size> 8 ? 5 : 1) {
            for (const std::size_t count : counts) {
                const auto expected = random_values<std::uint8_t>(count, count);
                std::vector<std::vector<std::uint8_t>> buffers(static_cast<std::size_t>(size),
                                                               poisoned<std::uint8_t>(count));
                buffers[static_cast<std::size_t>(root)] = expected;
                run(size, [&](Conversation& talk) {
                    return GetParam().run(talk, Bytes(out(buffers[own(talk)]), count), root);
                });
                for (const auto& buffer : buffers)
                    ASSERT_EQ(buffer, expected) << size << " ranks, root " << root;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Table, BroadcastTest, testing::ValuesIn(algorithms<Broadcast>()),
                         algorithm_name<Broadcast>);

}  // namespace
