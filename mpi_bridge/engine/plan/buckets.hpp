// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/negotiation/descriptor.hpp"

namespace mpi_bridge {

// Operations that are executed one after the other, in the order that all members agreed on.
struct Sequenced {
    std::uint32_t id = 0;
    const Descriptor* descriptor = nullptr;
    // Of its execution, growing along the sequence; see `after`.
    std::uint64_t serial = 0;
    // Some rank submitted this only after it had seen the end of the execution with that serial
    // number. So it cannot share a bucket with that one, or the rank would wait for itself.
    std::uint64_t after = 0;
};

// What one collective runs: an operation, or several allreduces whose tensors are fused.
struct FusedGroup {
    std::vector<std::uint32_t> ids;
    std::size_t bytes = 0;
};

// What is run as soon as all its operations are submitted: one fused group; or, if they carry the
// name of a group, as many as the operations of that group need.
struct Bucket {
    std::vector<FusedGroup> groups;
    std::size_t operations = 0;
    std::size_t bytes = 0;
};

struct BucketLimits {
    std::size_t first = 0;   // the first bucket is closed before it exceeds this
    std::size_t others = 0;  // ... and the others
};

// Cuts a sequence into buckets: allreduces that follow each other and can share a bucket do so, up
// to the limits. The operations of a named group are one bucket, in the place of the group's last.
[[nodiscard]] std::vector<Bucket> arrange(std::span<const Sequenced> sequence, BucketLimits limits);

// Bytes of the send buffer; 0 for kinds whose length may differ between the ranks.
[[nodiscard]] std::size_t bytes_of(const Descriptor& descriptor);

}  // namespace mpi_bridge
