// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/failure.hpp"
#include "mpi_bridge_engine.h"

namespace mpi_bridge {

// What an operation does: the values of mpib_kind, and the kinds that the engine itself negotiates.
enum class Kind : std::uint8_t {
    allreduce = MPIB_ALLREDUCE,
    allgather = MPIB_ALLGATHER,
    broadcast = MPIB_BROADCAST,
    reduce_scatter = MPIB_REDUCE_SCATTER,
    alltoall = MPIB_ALLTOALL,
    reduce = MPIB_REDUCE,
    barrier = MPIB_BARRIER,
    join = MPIB_JOIN,
    add_process_set = MPIB_KIND_COUNT,
    remove_process_set,
};

// Returns a name such as "allreduce" or "process_set_add".
[[nodiscard]] std::string_view name_of(Kind kind);

// The properties of an operation that all members must submit alike. A property that has no meaning
// for a kind keeps its default, so that it cannot make a difference.
struct Descriptor {
    // Stands for the length of a first dimension that may differ between the ranks.
    static constexpr std::int64_t any_length = -1;

    Kind kind = Kind::allreduce;
    mpib_datatype datatype = MPIB_UINT8;
    mpib_op op = MPIB_SUM;
    int root = -1;  // global rank
    double prescale = 1;
    double postscale = 1;
    bool device = false;  // MPIB_DEVICE
    // The shape of the send buffer; for process_set_add the ranks, for process_set_remove the id.
    std::vector<std::int64_t> shape;
    std::string group;
    int group_size = 0;

    bool operator==(const Descriptor&) const = default;
};

// Whether the operation is on device memory; barrier and join never are.
[[nodiscard]] bool is_on_device(const mpib_operation& operation);

// Describes the caller's operation, which must have passed check_operation().
[[nodiscard]] Descriptor describe(const mpib_operation& operation);

// Whether describe(operation) == descriptor, without making a copy.
[[nodiscard]] bool describes(const Descriptor& descriptor, const mpib_operation& operation);

// The number of elements in a row: the product of all dimensions but the first.
[[nodiscard]] std::size_t row_elements(const Descriptor& descriptor);
[[nodiscard]] std::size_t row_bytes(const Descriptor& descriptor);
// The number of elements in the send buffer. No length may be any_length.
[[nodiscard]] std::size_t elements(const Descriptor& descriptor);

// The part between kind and number in the names of operations that callers left unnamed.
inline constexpr std::string_view counted_name_infix = ".noname.";

// Whether the first dimension may differ between the ranks, and from step to step.
[[nodiscard]] bool has_free_length(Kind kind);

// Whether the operation can be part of a plan. An operation with a counted name cannot, because the
// name never comes again, and no step would be like the one before.
[[nodiscard]] bool is_plannable(const Descriptor& descriptor, std::string_view name);

// Whether both can share a bucket: they are allreduces that differ only in shape.
[[nodiscard]] bool can_share_bucket(const Descriptor& first, const Descriptor& second);

// One of several descriptors that members have given for the same name, and the global ranks that
// gave it (bit r % 64 of word r / 64).
struct Claim {
    Descriptor descriptor;
    std::vector<std::uint64_t> ranks;
};

// The text for every rank when the claims (at least two, all different) disagree. It names the
// tensor, and the ranks and values of the first property in which they differ, such as
//   "grad/w": ranks disagree in the shape: [2, 3] on rank 0, [3, 2] on ranks 1-3
[[nodiscard]] std::string mismatch_text(std::string_view name, std::span<const Claim> claims);

}  // namespace mpi_bridge
