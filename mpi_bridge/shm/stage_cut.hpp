// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

#include "shm/even_slice.hpp"

namespace mpi_bridge::shm {

// Cuts a vector into one slice per rank, and each slice into pieces, one per round of a staged
// transfer. All pieces but the last of a slice have the same length.
class StageCut {
  public:
    // Slices whose lengths differ by at most `unit` items, all but the last a multiple of it. No
    // piece is longer than `longest` items, a multiple of the unit.
    StageCut(std::size_t count, int ranks, std::size_t unit, std::size_t longest)
        : count_(count), ranks_(ranks), unit_(unit), units_((count + unit - 1) / unit) {
        const std::size_t slice = slice_of(0).length;
        rounds_ = std::max<std::size_t>(1, (slice + longest - 1) / longest);
        // Rounds of the same length, rather than full ones and a rest.
        piece_ = ((slice + rounds_ - 1) / rounds_ + unit - 1) / unit * unit;
    }

    [[nodiscard]] std::size_t rounds() const { return rounds_; }

    [[nodiscard]] Slice slice_of(int rank) const {
        const Slice units = even_slice(units_, ranks_, rank);
        const std::size_t first = std::min(count_, units.offset * unit_);
        const std::size_t end = std::min(count_, (units.offset + units.length) * unit_);
        return {first, end - first};
    }

    // Where in the vector. Empty where the slice has no such piece.
    [[nodiscard]] Slice piece(int rank, std::size_t round) const {
        const Slice slice = slice_of(rank);
        const std::size_t first = std::min(slice.length, round * piece_);
        return {slice.offset + first, std::min(piece_, slice.length - first)};
    }

  private:
    std::size_t count_;
    int ranks_;
    std::size_t unit_;
    std::size_t units_;
    std::size_t rounds_ = 1;
    std::size_t piece_ = 0;
};

}  // namespace mpi_bridge::shm
