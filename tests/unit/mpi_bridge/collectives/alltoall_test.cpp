// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

namespace {

using namespace mpi_bridge_test;
using mpi_bridge::Alltoall;
using mpi_bridge::MessageLengths;

// Runs an alltoall in which length_of(from, to) bytes go from one rank to another.
template <typename Length>
void run_alltoall(const Algorithm<Alltoall>& algorithm, int size, std::size_t segment_bytes,
                  const Length& length_of, bool equal = false) {
    const auto ranks = static_cast<std::size_t>(size);
    const auto message = [&](std::size_t from, std::size_t to) {
        return random_values<std::uint8_t>(length_of(from, to), from * 64 + to);
    };
    run(
        size,
        [&](Conversation& talk) -> Done {
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
            MessageLengths lengths{.longest = length_of(0, 0), .equal = equal};
            if (!equal) {
                const std::span<const ConstBytes> to = outgoing;
                const std::span<const Bytes> from = incoming;
                lengths = TRY(mpi_bridge::agree_on_lengths(
                    talk, {.longest = std::max(mpi_bridge::longest_of(to),
                                               mpi_bridge::longest_of(from))}));
            }
            auto done = algorithm.run(talk, outgoing, incoming, lengths);
            for (std::size_t r = 0; r < ranks; ++r)
                EXPECT_EQ(received[r], message(r, own(talk)));
            return done;
        },
        segment_bytes);
}

class AlltoallTest : public testing::TestWithParam<Algorithm<Alltoall>> {};

TEST_P(AlltoallTest, DeliversPartsOfDifferentLength) {
    for (const int size : rank_counts) {
        for (const std::size_t count : counts)
            run_alltoall(GetParam(), size, short_segment, [&](std::size_t from, std::size_t to) {
                return count * ((from + 2 * to) % 3);
            });
    }
}

TEST_P(AlltoallTest, DeliversPartsThatAreKnownToBeEqual) {
    for (const int size : {1, 2, 3, 6, 9, 16, 37}) {
        for (const std::size_t count : {0UL, 1UL, 8UL, 65UL}) {
            run_alltoall(
                GetParam(), size, short_segment, [&](std::size_t, std::size_t) { return count; },
                true);
        }
    }
}

// Breaks when ranks cut the steps into different batches, or wait for each other in a circle.
TEST_P(AlltoallTest, SendsShortAndLongMessagesInSeveralBatches) {
    constexpr std::size_t longest_short = 32UL * 1024;
    run_alltoall(GetParam(), 37, 1UL << 20, [&](std::size_t from, std::size_t to) {
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

INSTANTIATE_TEST_SUITE_P(Algorithms, AlltoallTest,
                         testing::ValuesIn(algorithms<Alltoall>().begin(),
                                           algorithms<Alltoall>().end()),
                         algorithm_name<Alltoall>);

TEST(Alltoall, FindsAMessageThatCameThroughOthersWithAnotherLength) {
    constexpr std::size_t ranks = 12;
    Post post;
    const auto& bruck = *mpi_bridge::find_algorithm<Alltoall>("bruck");
    const auto outcomes = as_ranks(
        ranks,
        [&](Conversation& talk) {
            const std::vector<std::byte> sent(8);
            std::vector<std::byte> received(9);
            std::vector<ConstBytes> outgoing(ranks, sent);
            std::vector<Bytes> incoming(ranks, Bytes(received).first(8));
            if (talk.rank() == 3) incoming[10] = received;
            return bruck.run(talk, outgoing, incoming, {.longest = 9});
        },
        post);
    for (std::size_t rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(outcomes[rank].has_value(), rank != 3);
    EXPECT_EQ(outcomes[3].error().status, MPIB_ERROR_MISMATCH);
    EXPECT_NE(outcomes[3].error().text.find("rank 10: it sent 8 bytes, expected 9"),
              std::string::npos)
        << outcomes[3].error().text;
}

}  // namespace
