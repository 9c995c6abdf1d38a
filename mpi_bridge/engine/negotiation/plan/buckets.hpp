// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/deadline.hpp"
#include "engine/negotiation/requests/descriptor.hpp"

namespace mpi_bridge {

// An operation of a sequence that all members execute in the same order.
struct Sequenced {
    std::uint32_t id = 0;
    const Descriptor* descriptor = nullptr;
    // The serial number of its execution, which grows along the sequence; see `after`.
    std::uint64_t serial = 0;
    // Some rank submitted this only after it had seen the end of the execution with this serial
    // number. So the two cannot share a bucket, or that rank would wait for itself.
    std::uint64_t after = 0;
    std::string_view name{};
};

// What one collective runs: one operation, or several allreduces whose tensors are fused. A rank
// can take part in it without their tensors.
struct FusedGroup {
    std::vector<std::uint32_t> ids;
    std::vector<std::size_t> counts;  // number of elements of each; used for allreduces only
    Descriptor what;                  // properties of all of them, apart from the shape
    std::string label;                // for messages: allreduce "x" and 3 more
    std::size_t bytes = 0;
};

// What runs as soon as all its operations are submitted: one fused group or, for the operations of
// a named group, as many fused groups as they need.
struct Bucket {
    std::vector<FusedGroup> groups;
    std::size_t operations = 0;
    std::size_t bytes = 0;  // without those of operations whose length may differ

    // State of a bucket in the plan.
    std::size_t missing = 0;  // operations that this rank has not submitted
    std::size_t free_bytes =
        0;  // of submitted operations whose length may differ, see note_length()
    [[nodiscard]] std::size_t all_bytes() const { return bytes + free_bytes; }
    Clock::time_point filled;
};

struct BucketLimits {
    std::size_t first = 0;   // the first bucket is closed before it exceeds this
    std::size_t others = 0;  // limit of the other buckets
};

// Cuts a sequence into buckets. Consecutive allreduces that can share a bucket do so, up to the
// limits. The operations of a named group form one bucket, at the position of the group's last one.
[[nodiscard]] std::vector<Bucket> arrange(std::span<const Sequenced> sequence, BucketLimits limits);

// The length of the send buffer; 0 for kinds whose length may differ between the ranks.
[[nodiscard]] std::size_t bytes_of(const Descriptor& descriptor);

}  // namespace mpi_bridge
