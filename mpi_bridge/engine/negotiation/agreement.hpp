// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/communicator.hpp"
#include "core/failure.hpp"
#include "engine/negotiation/round.hpp"

// How the members of a process set agree: a few collectives on short vectors, of logarithmic depth,
// with no member in a special part.
namespace mpi_bridge {

// Calls the other members to a round that this one begins, and waits until all are in it. A barrier
// in which each member's first deed is a message to its neighbour, which that one, in
// Communicator::next_call(), sees without being in any call: an allreduce would not do, because in
// some of its algorithms some members begin by waiting.
[[nodiscard]] Done call_together(Communicator& control, Seconds patience);

// Every word becomes that of all members. `what` names the step, for messages.
[[nodiscard]] Done agree(Communicator& control, std::string_view what, Seconds patience,
                         std::span<Word> words);

// The bytes of each member, by member; they may have different lengths.
[[nodiscard]] Outcome<std::vector<std::vector<std::byte>>> gather_bytes(
    Communicator& control, std::string_view what, Seconds patience,
    std::span<const std::byte> bytes);

}  // namespace mpi_bridge
