// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/failure.hpp"

namespace mpi_bridge {

enum class AllreduceAlgorithm { recursive_doubling, ring };

[[nodiscard]] std::string_view name_of(AllreduceAlgorithm algorithm);

// Which algorithm reduces vectors of which length. Must be the same on all ranks; ranks that
// disagree find out as they do about any other argument.
class AllreduceTable {
  public:
    struct Range {
        std::size_t up_to_bytes;  // the longest vector of this range
        AllreduceAlgorithm algorithm;
    };

    // Recursive doubling to 16 KiB, where the number of steps counts; then the ring, where the
    // number of bytes does.
    AllreduceTable();

    // "recursive_doubling:16K,ring": algorithms with the longest vector of each, growing; the last
    // without a length. A text of another form is MPIB_ERROR_INVALID_ARGUMENT.
    [[nodiscard]] static Outcome<AllreduceTable> parse(std::string_view text);

    [[nodiscard]] AllreduceAlgorithm choose(std::size_t bytes) const;

    // In the form that parse() reads.
    [[nodiscard]] std::string text() const;

  private:
    explicit AllreduceTable(std::vector<Range> ranges) : ranges_(std::move(ranges)) {}

    std::vector<Range> ranges_;  // never empty; the last one has no limit
};

}  // namespace mpi_bridge
