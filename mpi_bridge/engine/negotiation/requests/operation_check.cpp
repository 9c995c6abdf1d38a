// SPDX-License-Identifier: Apache-2.0
#include "engine/negotiation/requests/operation_check.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include <fmt/core.h>

#include "collectives/chunks.hpp"
#include "core/overlap.hpp"
#include "engine/negotiation/requests/descriptor.hpp"
#include "reduce/reduction.hpp"

namespace mpi_bridge {
namespace {

constexpr std::size_t longest_name = 4096;
constexpr int most_dimensions = 64;

// Read as a number, because a C caller can store any value in the struct, and an enumeration must
// not be read with a value that it does not have.
int kind_number(const mpib_operation& operation) {
    std::underlying_type_t<mpib_kind> number{};
    static_assert(sizeof number == sizeof operation.kind);
    std::memcpy(&number, &operation.kind, sizeof number);
    return static_cast<int>(number);
}

bool is_reduction(mpib_kind kind) {
    return kind == MPIB_ALLREDUCE || kind == MPIB_REDUCE || kind == MPIB_REDUCE_SCATTER;
}

Done check_shape(const mpib_operation& operation, std::size_t element_bytes) {
    if (operation.dimensions < 0 || operation.dimensions > most_dimensions)
        return invalid(fmt::format("{} dimensions; 0 to {} are allowed", operation.dimensions,
                                   most_dimensions));
    if (operation.dimensions != 0 && operation.shape == nullptr) return invalid("shape is NULL");
    constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
    std::size_t bytes = element_bytes;
    for (int dimension = 0; dimension < operation.dimensions; ++dimension) {
        const std::int64_t length = operation.shape[dimension];
        if (length < 0) return invalid(fmt::format("dimension {} is {}", dimension, length));
        if (length != 0 && bytes > most / static_cast<std::size_t>(length))
            return invalid("the tensor is larger than memory");
        bytes *= static_cast<std::size_t>(length);
    }
    return {};
}

std::size_t bytes_in(const mpib_operation& operation, std::size_t element_bytes) {
    std::size_t bytes = element_bytes;
    for (int dimension = 0; dimension < operation.dimensions; ++dimension)
        bytes *= static_cast<std::size_t>(operation.shape[dimension]);
    return bytes;
}

Done check_reduction(const mpib_operation& operation) {
    if (find_reduction(operation.datatype, operation.op) == nullptr)
        return invalid(why_no_reduction(operation.datatype, operation.op));
    if (!std::isfinite(operation.prescale) || !std::isfinite(operation.postscale))
        return invalid("a scale factor is not finite");
    const bool scales = (operation.prescale != 0 && operation.prescale != 1) ||
                        (operation.postscale != 0 && operation.postscale != 1);
    if (scales && operation.datatype == MPIB_BOOL) return invalid("MPIB_BOOL cannot be scaled");
    return {};
}

Done check_root(const mpib_operation& operation, const Group& group) {
    if (std::binary_search(group.ranks.begin(), group.ranks.end(), operation.root)) return {};
    return invalid(fmt::format("root {} is not a member of the process set", operation.root));
}

Done check_splits(const mpib_operation& operation, const Group& group) {
    const std::int64_t rows = operation.dimensions == 0 ? 1 : operation.shape[0];
    if (operation.splits == nullptr) {
        if (rows % group.size() == 0) return {};
        return invalid(fmt::format("{} rows cannot be split evenly between {} ranks; pass splits",
                                   rows, group.size()));
    }
    std::int64_t left = rows;
    for (int member = 0; member < group.size(); ++member) {
        const std::int64_t part = operation.splits[member];
        if (part < 0) return invalid(fmt::format("splits[{}] is {}", member, part));
        if (part > left) return invalid(fmt::format("splits add up to more than {} rows", rows));
        left -= part;
    }
    if (left == 0) return {};
    return invalid(fmt::format("splits add up to {} of {} rows", rows - left, rows));
}

Done check_memory(const mpib_operation& operation, const Group& group, std::size_t bytes) {
    if (bytes != 0 && operation.send == nullptr) {
        const bool receives_only =
            operation.kind == MPIB_BROADCAST &&
            group.ranks[static_cast<std::size_t>(group.own)] != operation.root;
        if (!receives_only) return invalid("send is NULL");
    }
    if (bytes != 0 && operation.recv == nullptr) {
        const bool is_root = group.ranks[static_cast<std::size_t>(group.own)] == operation.root;
        if (operation.kind == MPIB_ALLREDUCE || operation.kind == MPIB_BROADCAST ||
            (operation.kind == MPIB_REDUCE && is_root)) {
            return invalid("recv is NULL");
        }
    }
    return {};
}

// Whether other ranks' rows decide how long the result is.
bool grows(mpib_kind kind) {
    return kind == MPIB_ALLGATHER || kind == MPIB_ALLTOALL;
}

// The length of this rank's result, for kinds whose result length follows from the operation.
std::size_t result_bytes(const mpib_operation& operation, const Group& group, std::size_t bytes) {
    if (operation.kind == MPIB_REDUCE &&
        group.ranks[static_cast<std::size_t>(group.own)] != operation.root) {
        return 0;
    }
    if (operation.kind != MPIB_REDUCE_SCATTER) return bytes;
    const std::int64_t rows = operation.dimensions == 0 ? 1 : operation.shape[0];
    if (rows == 0) return 0;
    const auto count = static_cast<std::size_t>(rows);
    const auto own = even_slice(count, group.size(), group.own).length;
    return own * (bytes / count);
}

Done check_room(const mpib_operation& operation, const Group& group, std::size_t bytes) {
    if (grows(operation.kind)) {
        if (operation.recv == nullptr || operation.recv_bytes != 0) return {};
        return invalid(
            "recv_bytes is 0: say how many bytes recv can hold, because other ranks decide how "
            "long the result is (MPIB_NO_BYTES where it can hold nothing)");
    }
    const std::size_t needed = result_bytes(operation, group, bytes);
    const std::size_t room = operation.recv_bytes == MPIB_NO_BYTES ? 0 : operation.recv_bytes;
    if (operation.recv_bytes == 0 || needed <= room) return {};
    return invalid(
        fmt::format("recv can hold {} bytes (recv_bytes), but the result has {}", room, needed));
}

Done check_place(const mpib_operation& operation, const Group& group, std::size_t bytes) {
    const void* const send = operation.send;
    const void* const recv = operation.recv;
    if (send == nullptr || recv == nullptr || operation.kind == MPIB_ALLGATHER) return {};
    if (operation.kind == MPIB_ALLTOALL) {
        if (!overlap(send, bytes, recv, room_of(operation))) return {};
        return invalid("send and recv overlap");
    }
    const bool sends = operation.kind != MPIB_BROADCAST ||
                       group.ranks[static_cast<std::size_t>(group.own)] == operation.root;
    if (!sends || !overlap(send, bytes, recv, result_bytes(operation, group, bytes))) return {};
    if (operation.kind == MPIB_REDUCE_SCATTER) return invalid("send and recv overlap");
    if (send == recv) return {};
    return invalid("send and recv overlap but are not the same buffer");
}

// Finds what prevents an operation on device memory from running. This is checked before the
// operation is agreed on, because a refusal by the device on one rank alone would leave the others
// waiting.
Done check_device_memory(const mpib_operation& operation, std::size_t element_bytes) {
    if (operation.kind == MPIB_REDUCE)
        return invalid("reduce of device memory is not supported yet; use allreduce");
    for (const void* memory : {operation.send, const_cast<const void*>(operation.recv)}) {
        if (reinterpret_cast<std::uintptr_t>(memory) % element_bytes != 0)
            return invalid("device memory is not aligned to its elements");
    }
    return {};
}

Done check_tensor(const mpib_operation& operation, const Group& group) {
    if (operation.kind == MPIB_BARRIER || operation.kind == MPIB_JOIN) return {};
    const std::size_t element_bytes = datatype_bytes(operation.datatype);
    if (element_bytes == 0)
        return invalid(fmt::format("datatype {} is unknown", static_cast<int>(operation.datatype)));
    TRY(check_shape(operation, element_bytes));
    const std::size_t bytes = bytes_in(operation, element_bytes);
    if (is_reduction(operation.kind)) TRY(check_reduction(operation));
    if (operation.kind == MPIB_BROADCAST || operation.kind == MPIB_REDUCE)
        TRY(check_root(operation, group));
    if (operation.kind == MPIB_ALLTOALL) TRY(check_splits(operation, group));
    TRY(check_memory(operation, group, bytes));
    TRY(check_room(operation, group, bytes));
    TRY(check_place(operation, group, bytes));
    if (is_on_device(operation)) TRY(check_device_memory(operation, element_bytes));
    return {};
}

}  // namespace

Done check_operation(const mpib_operation& operation, const Group& group) {
    const int number = kind_number(operation);
    const bool known = number >= 0 && number < MPIB_KIND_COUNT;
    const auto refuse = [&](std::string_view what) {
        const std::string_view kind =
            known ? name_of(static_cast<Kind>(number)) : std::string_view("operation");
        return invalid(operation.name == nullptr
                           ? fmt::format("{}: {}", kind, what)
                           : fmt::format("{} \"{}\": {}", kind, operation.name, what));
    };
    if (!known) return refuse(fmt::format("kind {} is unknown", number));
    if (operation.name != nullptr && std::string_view(operation.name).size() > longest_name)
        return refuse("the name is too long");
    if (operation.name != nullptr && *operation.name == '\0') return refuse("the name is empty");
    if (operation.group != nullptr && *operation.group != '\0' && operation.group_size < 1)
        return refuse("group_size must be at least 1");
    if (const Done fine = check_tensor(operation, group); !fine) return refuse(fine.error().text);
    return {};
}

std::size_t room_of(const mpib_operation& operation) {
    if (operation.recv_bytes == MPIB_NO_BYTES) return 0;
    return operation.recv == nullptr ? SIZE_MAX : operation.recv_bytes;
}

}  // namespace mpi_bridge
