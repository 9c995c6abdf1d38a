// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

namespace {

using namespace mpi_bridge_test;

class AllgatherTest : public testing::TestWithParam<Algorithm<Allgather>> {};

TEST_P(AllgatherTest, CollectsPartsOfDifferentLengthInTheirPlaces) {
    for (const int size : rank_counts) {
        for (const std::size_t count : counts) {
            const auto ranks = static_cast<std::size_t>(size);
            const auto whole = random_values<std::uint8_t>(count * ranks, count);
            std::vector<std::vector<std::uint8_t>> buffers(ranks,
                                                           poisoned<std::uint8_t>(whole.size()));
            const auto length_of = [&](std::size_t rank) {
                return rank % 2 == 0 ? count : count / 3;
            };
            run(size, [&](Conversation& talk) {
                auto& buffer = buffers[own(talk)];
                std::vector<Bytes> parts;
                for (std::size_t r = 0; r < ranks; ++r) {
                    parts.push_back(
                        Bytes(out(buffer), whole.size()).subspan(r * count, length_of(r)));
                }
                const Bytes mine = parts[own(talk)];
                if (!mine.empty()) {
                    std::memcpy(mine.data(), in(whole) + own(talk) * count, mine.size());
                }
                return GetParam().run(talk, parts);
            });
            for (const auto& buffer : buffers) {
                for (std::size_t i = 0; i < buffer.size(); ++i) {
                    const bool inside = i % count < length_of(i / count);
                    ASSERT_EQ(buffer[i], inside ? whole[i] : 0xA5) << "byte " << i;
                }
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Table, AllgatherTest, testing::ValuesIn(algorithms<Allgather>()),
                         algorithm_name<Allgather>);

}  // namespace
