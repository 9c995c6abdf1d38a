// SPDX-License-Identifier: Apache-2.0
#include "engine/negotiation/operation_check.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include <fmt/core.h>

#include "collectives/chunks.hpp"
#include "engine/execute/device.hpp"
#include "engine/negotiation/descriptor.hpp"
#include "reduce/reduction.hpp"

namespace mpi_bridge {
namespace {

constexpr std::size_t longest_name = 4096;
constexpr int most_dimensions = 64;

// As a number, because a C caller can put any into the struct, and no other than its own values may
// be read as an enumeration.
int kind_number(const mpib_operation& operation) {
    std::underlying_type_t<mpib_kind> number{};
    static_assert(sizeof number == sizeof operation.kind);
    std::memcpy(&number, &operation.kind, sizeof number);
    return static_cast<int>(number);
}

bool reduces(mpib_kind kind) {
    return kind == MPIB_ALLREDUCE || kind == MPIB_REDUCE || kind == MPIB_REDUCE_SCATTER;
}

// What is wrong, or "".
std::string fault_in_shape(const mpib_operation& operation, std::size_t element_bytes) {
    if (operation.dimensions < 0 || operation.dimensions > most_dimensions)
        return fmt::format("{} dimensions; 0 to {} are allowed", operation.dimensions,
                           most_dimensions);
    if (operation.dimensions != 0 && operation.shape == nullptr) return "shape is NULL";
    constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
    std::size_t bytes = element_bytes;
    for (int dimension = 0; dimension < operation.dimensions; ++dimension) {
        const std::int64_t length = operation.shape[dimension];
        if (length < 0) return fmt::format("dimension {} is {}", dimension, length);
        if (length != 0 && bytes > most / static_cast<std::size_t>(length))
            return "the tensor is larger than memory";
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

std::string fault_in_reduction(const mpib_operation& operation) {
    if (find_reduction(operation.datatype, operation.op) == nullptr)
        return why_no_reduction(operation.datatype, operation.op);
    if (!std::isfinite(operation.prescale) || !std::isfinite(operation.postscale))
        return "a scale factor is not finite";
    const bool scales = (operation.prescale != 0 && operation.prescale != 1) ||
                        (operation.postscale != 0 && operation.postscale != 1);
    if (scales && operation.datatype == MPIB_BOOL) return "MPIB_BOOL cannot be scaled";
    return {};
}

std::string fault_in_root(const mpib_operation& operation, const Group& group) {
    if (std::binary_search(group.ranks.begin(), group.ranks.end(), operation.root)) return {};
    return fmt::format("root {} is not a member of the process set", operation.root);
}

std::string fault_in_splits(const mpib_operation& operation, const Group& group) {
    const std::int64_t rows = operation.dimensions == 0 ? 1 : operation.shape[0];
    if (operation.splits == nullptr) {
        if (rows % group.size() == 0) return {};
        return fmt::format("{} rows cannot be split evenly between {} ranks; pass splits", rows,
                           group.size());
    }
    std::int64_t left = rows;
    for (int member = 0; member < group.size(); ++member) {
        const std::int64_t part = operation.splits[member];
        if (part < 0) return fmt::format("splits[{}] is {}", member, part);
        if (part > left) return fmt::format("splits add up to more than {} rows", rows);
        left -= part;
    }
    return left == 0 ? std::string()
                     : fmt::format("splits add up to {} of {} rows", rows - left, rows);
}

std::string fault_in_memory(const mpib_operation& operation, const Group& group,
                            std::size_t bytes) {
    if (bytes != 0 && operation.send == nullptr) {
        const bool receives_only =
            operation.kind == MPIB_BROADCAST &&
            group.ranks[static_cast<std::size_t>(group.own)] != operation.root;
        if (!receives_only) return "send is NULL";
    }
    if (bytes != 0 && operation.recv == nullptr) {
        const bool is_root = group.ranks[static_cast<std::size_t>(group.own)] == operation.root;
        if (operation.kind == MPIB_ALLREDUCE || operation.kind == MPIB_BROADCAST ||
            (operation.kind == MPIB_REDUCE && is_root)) {
            return "recv is NULL";
        }
    }
    return {};
}

// Other ranks' rows decide how long the result is.
bool grows(mpib_kind kind) {
    return kind == MPIB_ALLGATHER || kind == MPIB_ALLTOALL;
}

// What this rank gets of a result whose length follows from the operation.
std::size_t result_bytes(const mpib_operation& operation, const Group& group, std::size_t bytes) {
    if (operation.kind == MPIB_REDUCE &&
        group.ranks[static_cast<std::size_t>(group.own)] != operation.root) {
        return 0;
    }
    if (operation.kind != MPIB_REDUCE_SCATTER) return bytes;
    const std::int64_t rows = operation.dimensions == 0 ? 1 : operation.shape[0];
    if (rows == 0) return 0;
    const auto count = static_cast<std::size_t>(rows);
    const auto own = even_chunks(count, group.size())[static_cast<std::size_t>(group.own)].length;
    return own * (bytes / count);
}

std::string fault_in_room(const mpib_operation& operation, const Group& group, std::size_t bytes) {
    if (grows(operation.kind)) {
        if (operation.recv == nullptr || operation.recv_bytes != 0) return {};
        return "recv_bytes is 0: say how many bytes recv can hold, because other ranks decide how "
               "long the result is (MPIB_NO_BYTES where it can hold nothing)";
    }
    const std::size_t needed = result_bytes(operation, group, bytes);
    const std::size_t room = operation.recv_bytes == MPIB_NO_BYTES ? 0 : operation.recv_bytes;
    if (operation.recv_bytes == 0 || needed <= room) return {};
    return fmt::format("recv can hold {} bytes (recv_bytes), but the result has {}", room, needed);
}

bool overlap(const void* a, std::size_t bytes_a, const void* b, std::size_t bytes_b) {
    const auto first = reinterpret_cast<std::uintptr_t>(a);
    const auto second = reinterpret_cast<std::uintptr_t>(b);
    // By differences, because the ends may lie beyond the last address.
    return bytes_a != 0 && bytes_b != 0 &&
           (first <= second ? second - first < bytes_a : first - second < bytes_b);
}

std::string fault_in_place(const mpib_operation& operation, const Group& group, std::size_t bytes) {
    const void* const send = operation.send;
    const void* const recv = operation.recv;
    if (send == nullptr || recv == nullptr || operation.kind == MPIB_ALLGATHER) return {};
    if (operation.kind == MPIB_ALLTOALL) {
        const std::size_t room = room_of(operation);
        return overlap(send, bytes, recv, room) ? "send and recv overlap" : "";
    }
    const bool sends = operation.kind != MPIB_BROADCAST ||
                       group.ranks[static_cast<std::size_t>(group.own)] == operation.root;
    if (!sends || !overlap(send, bytes, recv, result_bytes(operation, group, bytes))) return {};
    if (operation.kind == MPIB_REDUCE_SCATTER) return "send and recv overlap";
    return send == recv ? "" : "send and recv overlap but are not the same buffer";
}

std::string fault_in(const mpib_operation& operation, const Group& group) {
    if (operation.kind == MPIB_BARRIER || operation.kind == MPIB_JOIN) return {};
    const std::size_t element_bytes = datatype_bytes(operation.datatype);
    if (element_bytes == 0)
        return fmt::format("datatype {} is unknown", static_cast<int>(operation.datatype));
    std::string fault = fault_in_shape(operation, element_bytes);
    if (fault.empty() && reduces(operation.kind)) fault = fault_in_reduction(operation);
    if (fault.empty() && (operation.kind == MPIB_BROADCAST || operation.kind == MPIB_REDUCE))
        fault = fault_in_root(operation, group);
    if (fault.empty() && operation.kind == MPIB_ALLTOALL) fault = fault_in_splits(operation, group);
    if (fault.empty())
        fault = fault_in_memory(operation, group, bytes_in(operation, element_bytes));
    if (fault.empty()) fault = fault_in_room(operation, group, bytes_in(operation, element_bytes));
    if (fault.empty()) fault = fault_in_place(operation, group, bytes_in(operation, element_bytes));
    if (fault.empty() && is_on_device(operation)) fault = fault_on_device(operation, element_bytes);
    return fault;
}

}  // namespace

Done check_operation(const mpib_operation& operation, const Group& group) {
    const int number = kind_number(operation);
    const bool known = number >= 0 && number < MPIB_KIND_COUNT;
    const auto refuse = [&](std::string_view what) {
        const std::string_view kind =
            known ? name_of(static_cast<Kind>(number)) : std::string_view("operation");
        return fail(MPIB_ERROR_INVALID_ARGUMENT,
                    operation.name == nullptr
                        ? fmt::format("{}: {}", kind, what)
                        : fmt::format("{} \"{}\": {}", kind, operation.name, what));
    };
    if (!known) return refuse(fmt::format("kind {} is unknown", number));
    if (operation.name != nullptr && std::string_view(operation.name).size() > longest_name)
        return refuse("the name is too long");
    if (operation.name != nullptr && *operation.name == '\0') return refuse("the name is empty");
    if (operation.group != nullptr && *operation.group != '\0' && operation.group_size < 1)
        return refuse("group_size must be at least 1");
    const std::string fault = fault_in(operation, group);
    if (!fault.empty()) return refuse(fault);
    return {};
}

std::size_t room_of(const mpib_operation& operation) {
    if (operation.recv_bytes == MPIB_NO_BYTES) return 0;
    return operation.recv == nullptr ? SIZE_MAX : operation.recv_bytes;
}

}  // namespace mpi_bridge
