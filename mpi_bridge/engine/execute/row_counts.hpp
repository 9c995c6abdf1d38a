// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/communicator.hpp"
#include "core/failure.hpp"
#include "engine/entry.hpp"

// The lengths of first dimensions that only the sender knows; they go ahead of the data. So does
// how much each member's recv can hold: if that is too little on any of them, all members fail
// alike (MPIB_ERROR_MISMATCH, and the entry is refused) before there is any data.
namespace mpi_bridge {

// Fills in the entry's received_rows and result_rows: what each member passes.
[[nodiscard]] Done gather_row_counts(Communicator& communicator, const Communicator::Call& call,
                                     Entry& entry);

// The rows for each member: as the caller said, or equal parts.
[[nodiscard]] std::vector<std::int64_t> splits_of(const Entry& entry, int members);

// Fills in the entry's received_rows and result_rows: what each member has for this one.
[[nodiscard]] Done exchange_row_counts(Communicator& communicator, const Communicator::Call& call,
                                       std::span<const std::int64_t> splits, Entry& entry);

// Consecutive parts of so many rows each; parts of no memory are null.
template <typename Span>
[[nodiscard]] std::vector<Span> cut_rows(typename Span::pointer memory,
                                         std::span<const std::int64_t> rows,
                                         std::size_t row_bytes) {
    std::vector<Span> parts;
    std::size_t offset = 0;
    for (const std::int64_t count : rows) {
        const std::size_t length = static_cast<std::size_t>(count) * row_bytes;
        parts.emplace_back(memory == nullptr ? nullptr : memory + offset, length);
        offset += length;
    }
    return parts;
}

}  // namespace mpi_bridge
