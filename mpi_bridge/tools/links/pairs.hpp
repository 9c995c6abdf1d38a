// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace mpi_bridge::links {

// Pairs of ranks in rounds, as in a tournament: in each round every rank has one partner, or none,
// and after all rounds each pair has met once. One rank stays at its place and the others go round.
[[nodiscard]] constexpr int rounds_of(int ranks) {
    return ranks % 2 == 0 ? ranks - 1 : ranks;
}

// Returns the partner of `rank` in a round from 0 to rounds_of(ranks) - 1; none: it pauses.
[[nodiscard]] constexpr std::optional<int> partner_in(int round, int rank, int ranks) {
    const int places = rounds_of(ranks);
    // With an odd number, a rank that there is not stays at its place.
    const int last = places;
    int partner = 0;
    if (rank == last) {
        // 2 p = round (mod places), which is odd.
        partner = round % 2 == 0 ? round / 2 : (round + places) / 2;
    } else {
        partner = ((round - rank) % places + places) % places;
        if (partner == rank) partner = last;
    }
    return partner < ranks ? std::optional(partner) : std::nullopt;
}

}  // namespace mpi_bridge::links
