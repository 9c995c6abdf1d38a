// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/chunks.hpp"
#include "collectives/conversation.hpp"
#include "collectives/reducer.hpp"

// Reduce-scatter and allgather in ceil(log2 n) steps for any number n of ranks, where each rank
// sends and receives (n-1)/n of the vector. Both the number of steps and the number of bytes are
// the least possible. A power of two is not a special case, and no rank sits out. (J. L. Träff,
// "Optimal, non-pipelined reduce-scatter and allreduce algorithms", arXiv:2410.14234; the allgather
// is Bruck's.)
//
// There is one block per rank. Each rank counts the blocks from its own: on rank r, block i is the
// one that rank r+i modulo n owns. A rank that has blocks 0 .. w-1 has a window of width w.
//
// The widths are n, ceil(n/2), ceil(n/4), … 1. A step of the reduce-scatter goes from one width to
// the next: from w to v = ceil(w/2). Every rank sends its partial results of blocks v .. w-1 to the
// rank v above it, which counts them as its blocks 0 .. w-v-1 and adds them to its own. In the end
// the window is the rank's own block, with the values of all ranks. The allgather goes the same way
// back: from v to w, where a rank receives blocks v .. w-1 from the rank v above it and sends
// blocks 0 .. w-v-1 to the rank v below it.
//
// For 5 ranks, the reduce-scatter is: 5 -> 3 (two blocks to rank+3), 3 -> 2 (one to rank+2), 2 -> 1
// (one to rank+1).
namespace mpi_bridge::circulant {

// Returns the widths from n down to 1: ceil(log2 n) + 1 numbers.
[[nodiscard]] std::vector<int> widths(int ranks);

// Reduces a vector to one block per rank.
struct Scattering {
    const std::byte* send = nullptr;
    Chunks blocks;                // in values
    int first_owner = 0;          // rank r owns block r - first_owner modulo n
    std::size_t spare_bytes = 0;  // scratch memory that the caller needs afterwards
};
struct Scattered {
    const std::byte* accumulators = nullptr;  // of the own block, not yet stored; in scratch memory
    Bytes spare;
};
// Uses the steps 0 to ceil(log2 n) - 1.
[[nodiscard]] Outcome<Scattered> reduce_scatter(Conversation& talk, const Reducer& reducer,
                                                const Scattering& what);

// Completes the vector `data` on every rank; each rank must already have its own block.
struct Gathering {
    std::byte* data = nullptr;
    std::size_t item_bytes = 1;
    Chunks blocks;  // in items
    int first_owner = 0;
    std::uint32_t first_step = 0;  // the first of ceil(log2 n) steps
};
[[nodiscard]] Done allgather(Conversation& talk, const Gathering& what);

}  // namespace mpi_bridge::circulant
