// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

namespace {

using namespace mpi_bridge_test;

// Runs an alltoall in which length_of(from, to) bytes go from one rank to another.
template <typename Length>
void run_alltoall(int size, std::size_t segment_bytes, const Length& length_of) {
    const auto ranks = static_cast<std::size_t>(size);
    const auto message = [&](std::size_t from, std::size_t to) {
        return random_values<std::uint8_t>(length_of(from, to), from * 64 + to);
    };
    run(
        size,
        [&](Conversation& talk) {
            std::vector<std::vector<std::uint8_t>> sent;
            std::vector<std::vector<std::uint8_t>> received;
            for (std::size_t r = 0; r < ranks; ++r) {
                sent.push_back(message(own(talk), r));
                received.push_back(poisoned<std::uint8_t>(message(r, own(talk)).size()));
            }
            std::vector<ConstBytes> outgoing;
            std::vector<Bytes> incoming;
            for (auto& part : sent)
                outgoing.emplace_back(in(part), part.size());
            for (auto& part : received)
                incoming.emplace_back(out(part), part.size());
            auto done = mpi_bridge::alltoall_pairwise(talk, outgoing, incoming);
            for (std::size_t r = 0; r < ranks; ++r)
                EXPECT_EQ(received[r], message(r, own(talk)));
            return done;
        },
        segment_bytes);
}

TEST(Alltoall, DeliversPartsOfDifferentLength) {
    for (const int size : rank_counts) {
        for (const std::size_t count : counts)
            run_alltoall(size, short_segment, [&](std::size_t from, std::size_t to) {
                return count * ((from + 2 * to) % 3);
            });
    }
}

// Breaks when ranks cut the steps into different batches, or wait for each other in a circle.
TEST(Alltoall, SendsShortAndLongMessagesInSeveralBatches) {
    constexpr std::size_t longest_short = 32UL * 1024;
    run_alltoall(37, 1UL << 20, [&](std::size_t from, std::size_t to) {
        switch ((from * 5 + to * 3) % 4) {
            case 0:
                return std::size_t{0};
            case 1:
                return std::size_t{100};
            case 2:
                return longest_short;
            default:
                return longest_short + 1;
        }
    });
}

}  // namespace
