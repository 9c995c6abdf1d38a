// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "engine/negotiation/bits.hpp"
#include "engine/negotiation/member.hpp"

namespace mpi_bridge {

// The members that have said, by mpib_join(), that they have no more data.
struct Joined {
    Bits members;   // by their index in the process set
    int last = -1;  // the global rank of the one that came last

    [[nodiscard]] bool any() const { return !has_none(members); }
};

// Returns the names that can be run after a round, ascending: every member that has not joined has
// submitted them and means the same. `not_ready` has a bit for each of the first `bits` names of
// the pending table that some member has not submitted. Requests that cannot be run, because
// members mean different things by a name or because one has joined, are completed with their
// failure.
[[nodiscard]] std::vector<PendingTable::Id> find_ready(Member& member, const Joined& joined,
                                                       const Bits& not_ready, std::size_t bits);

}  // namespace mpi_bridge
