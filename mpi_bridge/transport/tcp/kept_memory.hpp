// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace mpi_bridge {

// Memory for messages that have come before their receives were posted. Long pieces are kept for
// reuse: new ones come from the system page by page, which costs more than copying the message. All
// peers of a rank on links of one kind share it. Needs the transport's lock.
class KeptMemory {
  public:
    struct Piece {
        std::unique_ptr<std::byte[]> memory;  // nullptr if it has no bytes
        std::size_t bytes = 0;
    };

    // One piece for each message, of whatever length. A new piece is not touched before the caller
    // writes into it.
    [[nodiscard]] Piece take(std::size_t bytes) {
        ++taken_;
        if (bytes == 0) return {};
        const auto spare = std::find_if(spare_.begin(), spare_.end(), [&](const Piece& each) {
            return each.bytes >= bytes && bytes >= least_kept;
        });
        if (spare == spare_.end())
            return {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
        Piece piece = std::move(*spare);
        spare_.erase(spare);
        spare_bytes_ -= piece.bytes;
        return piece;
    }
    void give_back(Piece piece) {
        --taken_;
        if (piece.bytes < least_kept || spare_bytes_ + piece.bytes > most_kept) return;
        spare_bytes_ += piece.bytes;
        spare_.push_back(std::move(piece));
    }

    // How many pieces were not given back, and so how many messages nobody has received.
    [[nodiscard]] std::size_t taken() const { return taken_; }

  private:
    static constexpr std::size_t least_kept = 16UL * 1024;
    static constexpr std::size_t most_kept = 16UL * 1024 * 1024;

    std::vector<Piece> spare_;
    std::size_t spare_bytes_ = 0;
    std::size_t taken_ = 0;
};

}  // namespace mpi_bridge
