// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "collectives/conversation.hpp"

namespace mpi_bridge {

// Sends to one rank and receives from another one, which may be the same, at the same time and
// independently: the lengths may differ. Both directions move in segments of whole items of
// `item_bytes`, with several segments in flight per direction.
//
// A direction is a list of runs of contiguous memory. The receiver's runs must have the same
// lengths as the sender's, because each run is cut into segments separately; an empty run sends no
// message.
struct Transfer {
    int to = 0;
    std::span<const ConstBytes> out;
    int from = 0;
    std::span<const Bytes> in;
    std::uint32_t step = 0;
    std::size_t item_bytes = 1;
};

// Called for every segment received, in order, while later ones are in flight: with the run that it
// belongs to and its offset there, in bytes. May be empty.
using Received = std::function<void(std::size_t run, std::size_t offset, Bytes segment)>;

[[nodiscard]] Done transfer(Conversation& talk, const Transfer& what, const Received& received);

}  // namespace mpi_bridge
