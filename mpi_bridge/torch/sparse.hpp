// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pending.hpp"

namespace mpi_bridge::torch {

/// Sums or averages a tensor of the layout COO over `size` members, in place: gathers the entries
/// of all members and adds equal places. Each member may have entries at other places. The result
/// is coalesced.
void submit_sparse(Pending& pending, const at::Tensor& tensor, const c10d::ReduceOp& op, int size);

}  // namespace mpi_bridge::torch
