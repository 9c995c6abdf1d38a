// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "collectives/conversation.hpp"

namespace mpi_bridge {

// Sends to one rank and receives from another, which may be the same, at the same time and
// independently: the lengths may differ. Both directions move in segments of whole items of
// `item_bytes`; several are under way per direction.
//
// A direction is a list of runs of contiguous memory. The receiver's runs must be as long as the
// sender's, because each is cut into segments for itself; empty runs are no messages.
struct Transfer {
    int to = 0;
    std::span<const ConstBytes> out;
    int from = 0;
    std::span<const Bytes> in;
    std::uint32_t step = 0;
    std::size_t item_bytes = 1;
};

// Told of every segment received, in order, while later ones are under way: which run it belongs
// to and where it starts there, in bytes. May be empty.
using Received = std::function<void(std::size_t run, std::size_t offset, Bytes segment)>;

[[nodiscard]] Done transfer(Conversation& talk, const Transfer& what, const Received& received);

}  // namespace mpi_bridge
