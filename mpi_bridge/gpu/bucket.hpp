// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/failure.hpp"
#include "gpu/codec.hpp"
#include "gpu/device.hpp"

namespace mpi_bridge {

// Where each tensor is in a bucket: the same on every rank that passes the same counts.
struct BucketLayout {
    std::vector<std::size_t> places;  // in elements, ascending; of empty tensors too
    std::size_t elements = 0;         // of the whole bucket, gaps included
};

[[nodiscard]] BucketLayout lay_out(std::span<const DevicePart> parts);

// The kernel launches that move the tensors into the bucket (pack: from `send`) or out of it
// (unpack: to `recv`), empty tensors left out. `arguments` holds what is the same for all launches;
// its first, elements, pieces and piece are filled in.
[[nodiscard]] std::vector<kernels::Arguments> launches_for(std::span<const DevicePart> parts,
                                                           const BucketLayout& layout, Way way,
                                                           const kernels::Arguments& arguments);

// MPIB_ERROR_INVALID_ARGUMENT when a tensor is null or not aligned as elements of that size need,
// or when their sizes together do not fit the address space. The text names the part.
[[nodiscard]] Done check_parts(std::span<const DevicePart> parts, std::size_t element_bytes);

}  // namespace mpi_bridge
