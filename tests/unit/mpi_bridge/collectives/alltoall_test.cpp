// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

namespace {

using namespace mpi_bridge_test;

TEST(Alltoall, DeliversPartsOfDifferentLength) {
    for (const int size : rank_counts) {
        for (const std::size_t count : counts) {
            const auto ranks = static_cast<std::size_t>(size);
            const auto message = [&](std::size_t from, std::size_t to) {
                return random_values<std::uint8_t>(count * ((from + 2 * to) % 3), from * 16 + to);
            };
            run(size, [&](Conversation& talk) {
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
            });
        }
    }
}

}  // namespace
