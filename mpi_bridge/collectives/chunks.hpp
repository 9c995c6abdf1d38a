// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "shm/even_slice.hpp"

namespace mpi_bridge {

// Returns value modulo size, never negative.
[[nodiscard]] constexpr int wrapped(int value, int size) {
    return ((value % size) + size) % size;
}

// A vector cut into one chunk per rank, one after the other. Even chunks are computed on demand, so
// that a call among ten thousand ranks does not cost each of them ten thousand steps.
class Chunks {
  public:
    // Cuts `count` items into `parts` chunks whose lengths differ by at most one, the longer ones
    // first.
    [[nodiscard]] static Chunks even(std::size_t count, int parts);
    [[nodiscard]] static Chunks of(std::span<const std::size_t> lengths);

    [[nodiscard]] int count() const { return parts_; }
    // Where a chunk starts; chunk count() would start at the end of the vector.
    [[nodiscard]] std::size_t start(int chunk) const;
    [[nodiscard]] Slice operator[](int chunk) const { return range(chunk, chunk + 1); }
    // The chunks first .. end-1.
    [[nodiscard]] Slice range(int first, int end) const {
        return {start(first), start(end) - start(first)};
    }
    [[nodiscard]] std::size_t longest() const { return longest_; }

    // `width` chunks from `first` on, where chunk 0 follows the last one: one run of the vector, or
    // two if they wrap around its end.
    struct Runs {
        Slice first;
        Slice second;
        [[nodiscard]] std::size_t length() const { return first.length + second.length; }
    };
    [[nodiscard]] Runs window(int first, int width) const;

  private:
    int parts_ = 0;
    std::size_t longest_ = 0;
    std::size_t total_ = 0;
    std::vector<std::size_t> starts_;  // empty for even chunks
};

}  // namespace mpi_bridge
