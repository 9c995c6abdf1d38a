// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "collectives/conversation.hpp"
#include "reduce/reduction.hpp"

// The two halves of ring algorithms, shared by allreduce, reduce-scatter and allgather.
//
// The ranks form a ring: each sends to the rank above it ("right") and receives from the one below
// it ("left"). The data is cut into one "chunk" per rank, a chunk into "segments". One message is
// one segment of one chunk. Long data is worked off in "rounds": each takes at most
// `segments_per_round` segments of every chunk, which bounds the scratch memory.
namespace mpi_bridge::ring {

constexpr std::size_t segments_per_round = 4;

// The part of a chunk that one round works on, in items (elements or bytes).
struct Slice {
    std::size_t offset = 0;
    std::size_t length = 0;
};

// Cuts chunks, given as slices of the whole, into rounds and segments of at most `segment` items.
class Cut {
  public:
    Cut(std::vector<Slice> chunks, std::size_t segment);

    [[nodiscard]] std::size_t rounds() const { return rounds_; }
    // A length of 0 means that there is no such segment, and so no message.
    [[nodiscard]] Slice segment(std::size_t round, int chunk, std::size_t index) const;

  private:
    std::vector<Slice> chunks_;
    std::size_t segment_;
    std::size_t rounds_ = 0;
};

// `count` items in `parts` chunks whose lengths differ by one at most, the longer ones first.
[[nodiscard]] std::vector<Slice> even_chunks(std::size_t count, int parts);

// What becomes of a finished segment of the own chunk: `accumulators` holds slice.length results.
using Finish = std::function<void(const std::byte* accumulators, Slice slice)>;

// Reduces one round; this rank ends with its own chunk. Step k (0 .. n-2): chunk c starts its way
// at rank c+1 and comes to rank c last, each rank on the way adding its own elements, so every
// result is computed once and in the same order from run to run.
// Uses steps first_step .. first_step+n-2.
[[nodiscard]] Done reduce_scatter_round(Conversation& talk, const Reduction& reduction,
                                        const std::byte* send, const Cut& cut, std::size_t round,
                                        std::uint32_t first_step, const Finish& finish);

// Hands every rank's own chunk around; `locate` gives the memory of a slice of a chunk. In step k
// each rank passes on the chunk it received in step k-1. Uses steps first_step .. first_step+n-2.
using Locate = std::function<Bytes(int chunk, Slice slice)>;
[[nodiscard]] Done allgather_round(Conversation& talk, const Cut& cut, std::size_t round,
                                   std::uint32_t first_step, const Locate& locate);

}  // namespace mpi_bridge::ring
