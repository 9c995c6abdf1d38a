// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "collectives/conversation.hpp"
#include "mpi_bridge.h"

namespace mpi_bridge {

// Fills memory of whole elements with the neutral element of the operation: zero for SUM, AVERAGE
// and OR, one for PRODUCT, the largest value (infinity) for MIN, the smallest for MAX, and all bits
// set for AND.
void fill_neutral(Bytes memory, mpib_datatype datatype, mpib_op op);

// An element that is appended to an allreduce to carry a status: each rank contributes `good` or
// `bad`, and the result differs from `good` if any rank was bad.
struct StatusElement {
    static constexpr std::size_t longest = 8;

    std::byte good[longest] = {};
    std::byte bad[longest] = {};
};

// Returns the element for this many ranks, which must not exceed most_status_ranks().
[[nodiscard]] StatusElement status_element(mpib_datatype datatype, mpib_op op, int ranks);

// The largest number of ranks for which the bad values cannot add up to a good one.
[[nodiscard]] int most_status_ranks(mpib_datatype datatype);

}  // namespace mpi_bridge
