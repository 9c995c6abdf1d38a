// SPDX-License-Identifier: Apache-2.0
#include "sparse.hpp"

#include <ATen/Functions.h>

namespace mpi_bridge::torch {

namespace {

/// Copies a result, whose rows are like those of a matrix, out of the engine's memory.
at::Tensor taken(const InFlight& gathered, const at::Tensor& like) {
    const auto found = gathered.result();
    auto copy = at::empty({found.rows, like.size(1)}, like.options());
    if (found.bytes == 0) {
        return copy;
    }
    // The memory is only read. On a device it is ready in the order of the current stream.
    const auto content = at::for_blob(const_cast<void*>(found.data), copy.sizes())
                             .options(like.options())
                             .target_device(like.device())
                             .make_tensor();
    return copy.copy_(content);
}

at::Tensor as_rows(const at::Tensor& entries) {
    const auto rows = entries.size(0);
    return entries.contiguous().view({rows, rows == 0
                                                ? c10::multiply_integers(entries.sizes().slice(1))
                                                : entries.numel() / rows});
}

}  // namespace

void submit_sparse(Pending& pending, const at::Tensor& tensor, const c10d::ReduceOp& op, int size) {
    TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == c10::kSparse, "all_reduce of ", tensor.layout(),
                                ": there is torch.sparse_coo only");
    const auto type = tensor.scalar_type();
    TORCH_CHECK_NOT_IMPLEMENTED(type != c10::ScalarType::Bool && !tensor.is_complex(),
                                "all_reduce of sparse tensors of ", type);
    const auto reduction = reduction_of(op, type);
    const auto averages = reduction.op == MPIB_AVERAGE;
    TORCH_CHECK_NOT_IMPLEMENTED((averages || reduction.op == MPIB_SUM) && reduction.prescale == 1,
                                "all_reduce of sparse tensors: there are SUM and AVG only");
    const auto own = tensor.detach().coalesce();
    // A row for each entry. The engine compares the types and the lengths of rows.
    const auto places = as_rows(own.indices().t());
    const auto values = as_rows(own.values());
    const auto first = pending.submit({.kind = MPIB_ALLGATHER, .send = places});
    const auto second = pending.submit({.kind = MPIB_ALLGATHER, .send = values});
    const auto is_exact = averages && !tensor.is_floating_point();
    // As sums of dense tensors are made: an average does not overflow where the sum would.
    const auto is_short = type == at::kHalf || type == at::kBFloat16;
    const auto wide = is_exact ? at::kLong : is_short ? at::kFloat : type;
    pending.when_done([=, shape = own.values().sizes().vec()](const auto& in_flight) {
        const auto all_places = taken(in_flight[first], places);
        auto entries = taken(in_flight[second], values);
        auto of_entries = shape;
        of_entries[0] = entries.size(0);
        entries = entries.view(of_entries);
        // The places of a member whose tensor has another shape may lie outside of this one.
        auto summed = at::sparse_coo_tensor(all_places.t(), entries.to(wide), tensor.sizes(), {},
                                            std::nullopt);
        at::_validate_sparse_coo_tensor_args(summed._indices(), summed._values(), tensor.sizes());
        summed = summed.coalesce();
        if (is_exact) {
            summed = at::div(summed, size, "trunc");
        } else if (averages) {
            summed = at::div(summed, size);
        }
        // detach() would return a tensor whose entries are its own.
        at::Tensor(tensor).copy_(summed.to(type));
    });
}

}  // namespace mpi_bridge::torch
