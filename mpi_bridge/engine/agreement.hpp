// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/communicator.hpp"
#include "core/failure.hpp"
#include "engine/announcement.hpp"

// How the members of a process set agree: a few collectives on short vectors, of logarithmic depth,
// with no member in a special part.
namespace mpi_bridge {

// What is reduced: a mask by OR, and beside it a number by MAX.
struct Word {
    std::uint64_t mask = 0;
    std::uint64_t number = 0;
};

// Calls the other members to a round that this one begins, and waits until all are in it. A barrier
// in which each member's first deed is a message to its neighbour, which that one, in
// Communicator::next_call(), sees without being in any call: an allreduce would not do, because in
// some of its algorithms some members begin by waiting.
[[nodiscard]] Done call_together(Communicator& control, Seconds patience);

// Every word becomes that of all members. `what` names the step, for messages.
[[nodiscard]] Done agree(Communicator& control, std::string_view what, Seconds patience,
                         std::span<Word> words);

// The announcements of each member, by member. One member's stand for all where `all_same`.
[[nodiscard]] Outcome<std::vector<std::vector<Announcement>>> gather_announcements(
    Communicator& control, Seconds patience, std::span<const std::byte> encoded);

// The masks of each member, one after the other; all members pass equally many.
[[nodiscard]] Outcome<std::vector<std::uint64_t>> gather_masks(
    Communicator& control, Seconds patience, std::span<const std::uint64_t> masks);

}  // namespace mpi_bridge
