// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/chunks.hpp"
#include "collectives/conversation.hpp"
#include "collectives/reducer.hpp"

// Reduce-scatter and allgather in ceil(log2 n) steps for any number n of ranks, each rank sending
// and receiving (n-1)/n of the vector: the fewest steps and the fewest bytes at once. A power of
// two is no special case, and no rank sits out. (J. L. Träff, "Optimal, non-pipelined
// reduce-scatter and allreduce algorithms", arXiv:2410.14234; the allgather is Bruck's.)
//
// There is one block per rank. Seen from rank r the blocks are counted from its own: block i is
// that of rank r+i modulo n, its owner. "Having" blocks 0 .. w-1 is having a window of width w.
//
// The widths are n, ceil(n/2), ceil(n/4), … 1. A step of the reduce-scatter goes from one width to
// the next: from w to v = ceil(w/2). Every rank sends its partial results of blocks v .. w-1 to the
// rank v above it, which sees them as its blocks 0 .. w-v-1 and adds them to its own. In the end
// the window is the own block, with every rank's share. The allgather goes the same way back: from
// v to w, receiving blocks v .. w-1 from the rank v above and sending blocks 0 .. w-v-1 to the rank
// v below.
//
// For 5 ranks, reduce-scatter: 5 -> 3 (two blocks to rank+3), 3 -> 2 (one to rank+2), 2 -> 1 (one
// to rank+1).
namespace mpi_bridge::circulant {

// From n down to 1: ceil(log2 n) + 1 numbers.
[[nodiscard]] std::vector<int> widths(int ranks);

// Reduces a vector to one block per rank.
struct Scattering {
    const std::byte* send = nullptr;
    Chunks blocks;                // in values
    int first_owner = 0;          // rank r owns block r - first_owner modulo n
    std::size_t spare_bytes = 0;  // of scratch memory that the caller needs afterwards
};
struct Scattered {
    const std::byte* accumulators = nullptr;  // of the own block, not yet stored; in the scratch
    Bytes spare;
};
// Uses the steps 0 to ceil(log2 n) - 1.
[[nodiscard]] Outcome<Scattered> reduce_scatter(Conversation& talk, const Reducer& reducer,
                                                const Scattering& what);

// Completes the vector `data` on every rank, where each has its own block already.
struct Gathering {
    std::byte* data = nullptr;
    std::size_t item_bytes = 1;
    Chunks blocks;  // in items
    int first_owner = 0;
    std::uint32_t first_step = 0;  // of ceil(log2 n)
};
[[nodiscard]] Done allgather(Conversation& talk, const Gathering& what);

}  // namespace mpi_bridge::circulant
