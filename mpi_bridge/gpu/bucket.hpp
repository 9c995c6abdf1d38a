// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/failure.hpp"
#include "gpu/device_group.hpp"
#include "gpu/wire/codec.hpp"

namespace mpi_bridge {

// Where each tensor is in a bucket. The layout is the same on all ranks that pass the same counts.
struct BucketLayout {
    std::vector<std::size_t> places;  // of all tensors, also of empty ones; in elements, ascending
    std::size_t elements = 0;         // of the whole bucket, gaps included
};

[[nodiscard]] BucketLayout lay_out(std::span<const DevicePart> parts);

// Returns the kernel launches that move the tensors into the bucket (pack: from `send`) or out of
// it (unpack: to `recv`), without the empty tensors. `arguments` holds what all launches have in
// common; its first, elements, pieces and piece are filled in.
[[nodiscard]] std::vector<kernels::Arguments> launches_for(std::span<const DevicePart> parts,
                                                           const BucketLayout& layout, Way way,
                                                           const kernels::Arguments& arguments);

// MPIB_ERROR_INVALID_ARGUMENT if a tensor is null or not aligned for elements of that size, or if
// the tensors together do not fit into the address space. The text names the part.
[[nodiscard]] Done check_parts(std::span<const DevicePart> parts, std::size_t element_bytes);

// MPIB_ERROR_INVALID_ARGUMENT unless there is one length for each rank.
[[nodiscard]] Done check_lengths(std::span<const std::size_t> lengths, int ranks);

[[nodiscard]] std::size_t sum_of(std::span<const std::size_t> lengths);

}  // namespace mpi_bridge
