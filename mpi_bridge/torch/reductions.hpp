// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "mpi_bridge_engine.h"

namespace mpi_bridge::torch {

/// An operation, and the factor that is applied to each element before it.
struct Reduction {
    mpib_op op = MPIB_SUM;
    double prescale = 1.0;
};

/// The engine's element type, or none.
std::optional<mpib_datatype> datatype_of(c10::ScalarType type);

/// Whether torch's reduction is BXOR, which the engine does not have.
bool is_xor(const c10d::ReduceOp& op);

/// The exclusive or of tensors of one shape.
at::Tensor xor_of(const std::vector<at::Tensor>& parts);

/// The engine's reduction for torch's; throws NotImplementedError.
Reduction reduction_of(const c10d::ReduceOp& op, c10::ScalarType type);

/// Whether the tensor's values lie one after the other in its memory.
bool is_plain(const at::Tensor& tensor);

/// A tensor with the same values of which that is so; itself, if it is.
at::Tensor plain(const at::Tensor& tensor);

/// A contiguous tensor's elements as a flat one, of a type that the engine can reduce.
at::Tensor reducible(const at::Tensor& tensor, const Reduction& reduction);

/// A contiguous tensor's memory as a flat tensor of bytes.
at::Tensor as_bytes(const at::Tensor& tensor);

}  // namespace mpi_bridge::torch
