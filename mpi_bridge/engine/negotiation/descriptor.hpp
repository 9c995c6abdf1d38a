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

// What an operation does; the values of mpib_kind, and what the engine negotiates for itself.
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

// "allreduce", "process_set_add".
[[nodiscard]] std::string_view name_of(Kind kind);

// What all members must say alike of the operation that one name stands for. What a kind has no use
// for keeps its default, so that it cannot make a difference.
struct Descriptor {
    // The length of a first dimension that may differ between the ranks.
    static constexpr std::int64_t any_length = -1;

    Kind kind = Kind::allreduce;
    mpib_datatype datatype = MPIB_UINT8;
    mpib_op op = MPIB_SUM;
    int root = -1;  // global rank
    double prescale = 1;
    double postscale = 1;
    bool device = false;  // MPIB_DEVICE
    // Of the send buffer. The ranks of process_set_add, the id of process_set_remove.
    std::vector<std::int64_t> shape;
    std::string group;
    int group_size = 0;

    bool operator==(const Descriptor&) const = default;
};

// The operation is on device memory; barrier and join never are.
[[nodiscard]] bool is_on_device(const mpib_operation& operation);

// Of the caller's operation, which must have passed check_operation().
[[nodiscard]] Descriptor describe(const mpib_operation& operation);

// describe(operation) == descriptor, without making a copy.
[[nodiscard]] bool describes(const Descriptor& descriptor, const mpib_operation& operation);

// Elements in a row: the product of all dimensions but the first.
[[nodiscard]] std::size_t row_elements(const Descriptor& descriptor);
// Elements in the send buffer. Only where no length is any_length.
[[nodiscard]] std::size_t elements(const Descriptor& descriptor);

// What the names of operations that callers left without one have between kind and number.
inline constexpr std::string_view counted_name_infix = ".noname.";

// Sizes are the same in every step and on every rank, so it can be part of a plan. Not what has a
// counted name, which never comes again: with one of those, no step would be like the one before.
[[nodiscard]] bool is_plannable(const Descriptor& descriptor, std::string_view name);

// Can share a bucket: both are allreduces that differ in nothing but shape.
[[nodiscard]] bool can_share_bucket(const Descriptor& first, const Descriptor& second);

// One of several opinions about what a name stands for, and the global ranks that hold it (bit
// r % 64 of word r / 64).
struct Claim {
    Descriptor descriptor;
    std::vector<std::uint64_t> ranks;
};

// What to tell every rank when the claims (two or more, all different) disagree: names the tensor,
// the ranks and both values of the first thing they differ in, such as
//   "grad/w": ranks disagree in the shape: [2, 3] on rank 0, [3, 2] on ranks 1-3
[[nodiscard]] std::string mismatch_text(std::string_view name, std::span<const Claim> claims);

}  // namespace mpi_bridge
