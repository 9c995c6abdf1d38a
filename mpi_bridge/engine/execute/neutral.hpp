// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "collectives/conversation.hpp"
#include "mpi_bridge.h"

namespace mpi_bridge {

// Fills memory of whole elements with the value that changes nothing: zero for SUM, AVERAGE and OR,
// one for PRODUCT, the largest (infinity) for MIN, the smallest for MAX, all bits for AND.
void fill_neutral(Bytes memory, mpib_datatype datatype, mpib_op op);

// How a word on success travels in one more element of an allreduce: each rank adds `good` or
// `bad`, and where any was bad the result differs from `good`.
struct StatusElement {
    static constexpr std::size_t longest = 8;

    std::byte good[longest] = {};
    std::byte bad[longest] = {};
};

// For that many ranks; at most most_status_ranks() of them.
[[nodiscard]] StatusElement status_element(mpib_datatype datatype, mpib_op op, int ranks);

// So many that the bad ones cannot add up to a good one.
[[nodiscard]] int most_status_ranks(mpib_datatype datatype);

}  // namespace mpi_bridge
