// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "engine/negotiation/member.hpp"
#include "engine/negotiation/requests/bits.hpp"

namespace mpi_bridge {

// The members that have called mpib_join(), because they have no more data.
struct Joined {
    Bits members;   // by their index in the process set
    int last = -1;  // the global rank of the one that joined last

    [[nodiscard]] bool any() const { return !has_none(members); }
    [[nodiscard]] bool all(std::span<const int> ranks) const;
    // Adds the members that have joined, from the reduced words, which have a bit per member;
    // `ranks` are the members' global ranks.
    void count(std::span<const Word> words, std::span<const int> ranks);
};

// Returns the names that can run after a round, in ascending order: every member that has not
// joined has submitted them with the same meaning. `not_ready` has a bit for each of the first
// `bits` names of the pending table that some member has not submitted. Requests that cannot run,
// because members mean different things by a name or because one has joined, are completed with a
// failure.
[[nodiscard]] std::vector<PendingTable::Id> find_ready(Member& member, const Joined& joined,
                                                       const Bits& not_ready, std::size_t bits);

}  // namespace mpi_bridge
