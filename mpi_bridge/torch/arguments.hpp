// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "work/in_flight.hpp"

// What the arguments of an operation must be, and what must have come for them.
//
// The engine moves most tensors as bytes, and takes memory for a result that is too large. So it
// sees neither that the types differ, nor that a part of the result was never written.
namespace mpi_bridge::torch {

/// Throws unless the elements of all tensors have the type of this one's.
void require_one_type(const char* operation, const at::Tensor& tensor,
                      const std::vector<at::Tensor>& others);

/// Throws unless this rank's part of a reduction is as large as its output.
void require_place_for(const at::Tensor& output, const at::Tensor& part);

/// How many of the tensor's rows are for each of the group's ranks; equal numbers without splits.
std::vector<std::int64_t> rows_for_each(const char* operation,
                                        const std::vector<std::int64_t>& splits,
                                        const at::Tensor& tensor, int size);

/// The lengths of so many rows of the tensor.
std::vector<std::int64_t> bytes_of_rows(const std::vector<std::int64_t>& rows,
                                        const at::Tensor& tensor);

/// The lengths of the tensors.
std::vector<std::int64_t> bytes_of(const std::vector<at::Tensor>& tensors);

/// Throws unless the group has a rank of this number.
void require_member(std::int64_t rank, int size);

/// Throws if the tag is negative, which no backend of torch takes.
void require_tag(int tag);

/// Throws unless as many bytes have come from each of these ranks as there is room for.
void require_received(const char* operation, const InFlight& in_flight,
                      const std::vector<std::int64_t>& expected, const std::vector<int>& ranks);

}  // namespace mpi_bridge::torch
