// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/failure.hpp"
#include "engine/negotiation/member.hpp"
#include "engine/negotiation/requests/bits.hpp"
#include "engine/negotiation/requests/named_request.hpp"

namespace mpi_bridge {

// What one member says at the beginning of a round and, once the words are reduced, what all
// members have said together:
//   word 0        mask: what else this round is to do, see Wish; number: the digest of what this
//                 member announces
//   word 1        number: the complement of that digest, so that the maxima of the two tell
//                 whether all digests are equal
//   words 2, 3    numbers: digest of the settings that must be equal, and its complement
//   word 1+i/64   mask, bit i%64: name i of the pending table is not ready on this member
struct Announcement {
    enum Wish : std::uint64_t {
        announces = 1,    // has requests to announce
        joins = 2,        // has joined since its last round
        leaves_plan = 4,  // asks all members to leave the plan
        asks_who = 8,     // wants to know who has submitted what
        stays_open = 16,  // has not been asked to close
        uses_plan = 32,   // no wish: has submitted something of the plan since its last round
    };

    std::vector<NamedRequest> requests;  // of this member, announced in this round
    std::vector<std::byte> encoded;      // the same requests, encoded for the others
    std::size_t names = 0;               // number of names of the pending table that have a bit
    std::vector<Word> words;

    // MPIB_ERROR_MISMATCH if the members' settings differ. Requires reduced words.
    [[nodiscard]] Done settings_agree() const;
    // The exchanges that follow in this round, as a mask of Wish; they run in the order of its
    // values.
    [[nodiscard]] std::uint64_t wishes() const {
        return words[0].mask & ~std::uint64_t{stays_open | uses_plan};
    }
    // Whether all members announce the same requests.
    [[nodiscard]] bool all_announce_the_same() const;
    [[nodiscard]] bool plan_is_used() const { return (words[0].mask & uses_plan) != 0; }
    [[nodiscard]] bool all_close() const { return (words[0].mask & stays_open) == 0; }
    // A bit for each of the first `names` names that some member is not ready for.
    [[nodiscard]] Bits not_ready() const;
};

// Returns what this member has to say, and records it as said: its requests count as announced, for
// example.
[[nodiscard]] Announcement announce(Member& member);

}  // namespace mpi_bridge
