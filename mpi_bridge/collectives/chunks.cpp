// SPDX-License-Identifier: Apache-2.0
#include "collectives/chunks.hpp"

#include <algorithm>

namespace mpi_bridge {

Chunks Chunks::even(std::size_t count, int parts) {
    Chunks chunks;
    chunks.parts_ = parts;
    chunks.total_ = count;
    chunks.longest_ = even_slice(count, parts, 0).length;
    return chunks;
}

Chunks Chunks::of(std::span<const std::size_t> lengths) {
    Chunks chunks;
    chunks.parts_ = static_cast<int>(lengths.size());
    chunks.starts_.reserve(lengths.size() + 1);
    for (const std::size_t length : lengths) {
        chunks.starts_.push_back(chunks.total_);
        chunks.total_ += length;
        chunks.longest_ = std::max(chunks.longest_, length);
    }
    chunks.starts_.push_back(chunks.total_);
    return chunks;
}

std::size_t Chunks::start(int chunk) const {
    if (!starts_.empty()) return starts_[static_cast<std::size_t>(chunk)];
    return even_slice(total_, parts_, chunk).offset;
}

Chunks::Runs Chunks::window(int first, int width) const {
    const int until_end = parts_ - first;
    if (width <= until_end) return {range(first, first + width), {}};
    return {range(first, parts_), range(0, width - until_end)};
}

}  // namespace mpi_bridge
