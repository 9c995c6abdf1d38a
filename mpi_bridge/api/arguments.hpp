// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/failure.hpp"
#include "mpi_bridge_engine.h"

// Checks that the functions of the C API make before anything is sent.
namespace mpi_bridge {

// A digest of what all ranks must pass alike. It may change between releases, because ranks of
// different releases do not work together.
class Agreement {
  public:
    explicit Agreement(mpib_kind kind) { add(static_cast<std::uint64_t>(kind) + 1); }
    Agreement& add(std::uint64_t value) {
        digest_ = (digest_ ^ value) * 0x9e3779b97f4a7c15U;
        digest_ ^= digest_ >> 32;
        return *this;
    }
    [[nodiscard]] std::uint64_t digest() const { return digest_; }

  private:
    std::uint64_t digest_ = 0xcbf29ce484222325U;
};

[[nodiscard]] inline tl::unexpected<Failure> invalid(std::string_view call, std::string_view what) {
    return invalid(std::string(call) + ": " + std::string(what));
}

[[nodiscard]] inline bool missing(const void* pointer, std::size_t bytes) {
    return pointer == nullptr && bytes != 0;
}

[[nodiscard]] inline bool too_many(std::size_t count, std::size_t each) {
    return count != 0 && each > std::numeric_limits<std::size_t>::max() / count;
}

// Cuts memory into one part per rank. Without displacements the parts are packed.
template <typename Span>
[[nodiscard]] std::vector<Span> parts_of(typename Span::pointer memory,
                                         std::span<const std::size_t> lengths,
                                         const std::size_t* displacements) {
    std::vector<Span> parts;
    parts.reserve(lengths.size());
    std::size_t packed = 0;
    for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
        const std::size_t at = displacements == nullptr ? packed : displacements[rank];
        // Arithmetic on a null pointer is undefined, and the pointer to an empty part may be null.
        parts.push_back(lengths[rank] == 0 ? Span() : Span(memory + at, lengths[rank]));
        packed += lengths[rank];
    }
    return parts;
}

// Whether the sum of the lengths overflows; sum_of() is wrong then.
[[nodiscard]] inline bool too_long(std::span<const std::size_t> lengths) {
    std::size_t sum = 0;
    for (const std::size_t length : lengths) {
        if (length > std::numeric_limits<std::size_t>::max() - sum) return true;
        sum += length;
    }
    return false;
}

[[nodiscard]] inline std::size_t sum_of(std::span<const std::size_t> lengths) {
    std::size_t sum = 0;
    for (const std::size_t length : lengths)
        sum += length;
    return sum;
}

}  // namespace mpi_bridge
