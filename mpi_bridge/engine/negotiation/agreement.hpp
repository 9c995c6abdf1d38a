// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/communicator.hpp"
#include "core/failure.hpp"
#include "engine/negotiation/requests/bits.hpp"

// How the members of a process set agree: by a few collectives on short vectors, with a logarithmic
// number of steps and without a leader.
namespace mpi_bridge {

// Calls the other members to a round that this member begins, and waits until all are in it. This
// is a barrier in which each member first sends a message to its neighbour, which notices it in
// Communicator::next_call() without being in any call. An allreduce would not do, because in some
// of its algorithms some members begin by waiting.
[[nodiscard]] Done call_together(Communicator& control, Seconds patience);

// Combines every word over all members. `what` names the step, for messages.
[[nodiscard]] Done agree(Communicator& control, std::string_view what, Seconds patience,
                         std::span<Word> words);

// Returns the bytes of each member, in the order of members; their lengths may differ.
[[nodiscard]] Outcome<std::vector<std::vector<std::byte>>> gather_bytes(
    Communicator& control, std::string_view what, Seconds patience,
    std::span<const std::byte> bytes);

}  // namespace mpi_bridge
