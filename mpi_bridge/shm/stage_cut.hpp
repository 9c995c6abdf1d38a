// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "shm/even_slice.hpp"

namespace mpi_bridge::shm {

// Cuts a vector into one slice per rank, and each slice into pieces, one per round of a staged
// transfer. All pieces but the last of a slice have the same length.
class StageCut {
  public:
    // The lengths of the slices differ by at most `unit` items, and all but the last are a multiple
    // of it. No piece is longer than `longest` items, which must be a multiple of the unit.
    StageCut(std::size_t count, int ranks, std::size_t unit, std::size_t longest)
        : count_(count), ranks_(ranks), unit_(unit), units_((count + unit - 1) / unit) {
        cut_slices(slice_of(0).length, longest);
    }

    // Slice r reaches from starts[r] to starts[r + 1], and pieces have at most `longest` items. The
    // memory of `starts` must outlive this object.
    StageCut(std::span<const std::size_t> starts, std::size_t longest)
        : count_(starts.back()), ranks_(static_cast<int>(starts.size()) - 1), starts_(starts) {
        std::size_t slice = 0;
        for (int rank = 0; rank < ranks_; ++rank)
            slice = std::max(slice, slice_of(rank).length);
        cut_slices(slice, longest);
    }

    [[nodiscard]] std::size_t rounds() const { return rounds_; }

    [[nodiscard]] Slice slice_of(int rank) const {
        if (!starts_.empty()) {
            const auto place = static_cast<std::size_t>(rank);
            return {starts_[place], starts_[place + 1] - starts_[place]};
        }
        const Slice units = even_slice(units_, ranks_, rank);
        const std::size_t first = std::min(count_, units.offset * unit_);
        const std::size_t end = std::min(count_, (units.offset + units.length) * unit_);
        return {first, end - first};
    }

    // The place of a piece in the vector. Empty where the slice has no such piece.
    [[nodiscard]] Slice piece(int rank, std::size_t round) const {
        const Slice slice = slice_of(rank);
        const std::size_t first = std::min(slice.length, round * piece_);
        return {slice.offset + first, std::min(piece_, slice.length - first)};
    }

  private:
    // `slice` is the length of the longest slice.
    void cut_slices(std::size_t slice, std::size_t longest) {
        rounds_ = std::max<std::size_t>(1, (slice + longest - 1) / longest);
        // Rounds are of equal length, which is better than full ones and a short last one.
        piece_ = ((slice + rounds_ - 1) / rounds_ + unit_ - 1) / unit_ * unit_;
    }

    std::size_t count_;
    int ranks_;
    std::size_t unit_ = 1;
    std::size_t units_ = 0;
    std::span<const std::size_t> starts_;  // empty where slices are even
    std::size_t rounds_ = 1;
    std::size_t piece_ = 0;
};

}  // namespace mpi_bridge::shm
