// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/communicator.hpp"
#include "core/failure.hpp"
#include "engine/negotiation/requests/own_request.hpp"

// Exchanges the lengths of first dimensions that only the sender knows, before the data. The
// members also tell how much their recv can hold: if that is too little on any of them, all members
// fail alike (MPIB_ERROR_MISMATCH, the request's refusal) before any data is sent.
namespace mpi_bridge {

// Fills in the request's received_rows and result_rows for an allgather: the rows that each member
// passes.
[[nodiscard]] Done gather_row_counts(Communicator& communicator, const Communicator::Call& call,
                                     OwnRequest& request);

// Returns the rows for each member: as the caller gave them, or equal parts.
[[nodiscard]] std::vector<std::int64_t> splits_of(const OwnRequest& request, int members);

// Returns the elements of each member's part of a reduce-scatter: its rows are split evenly.
[[nodiscard]] std::vector<std::size_t> scatter_counts(const OwnRequest& request, int members);

// Fills in the request's received_rows and result_rows for an alltoall: the rows that each member
// sends to this one. Returns how long the messages between all members are.
[[nodiscard]] Outcome<MessageLengths> exchange_row_counts(Communicator& communicator,
                                                          const Communicator::Call& call,
                                                          std::span<const std::int64_t> splits,
                                                          OwnRequest& request);

}  // namespace mpi_bridge
