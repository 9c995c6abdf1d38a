// SPDX-License-Identifier: Apache-2.0
//
// The operations that never share a collective with another one.
#include <cstring>
#include <vector>

#include <fmt/core.h>

#include "core/parts.hpp"
#include "engine/execute/host_execution.hpp"
#include "engine/execute/row_counts.hpp"
#include "reduce/reduction.hpp"

namespace mpi_bridge {
namespace {

// Where the result goes: into the caller's memory, or into the request's if the caller gave none.
std::byte* result_memory(OwnRequest& request, std::size_t bytes) {
    if (request.recv != nullptr) return request.recv;
    request.owned.resize(bytes);
    return request.owned.data();
}

}  // namespace

const std::byte* HostExecution::scaled(const OwnRequest& request, std::size_t count) {
    const Descriptor& what = request.descriptor;
    if (what.prescale == 1) return request.send;
    const Reduction& reduction = *find_reduction(what.datatype, what.op);
    const std::size_t bytes = count * reduction.element_bytes;
    std::byte* copy = scratch_.take(bytes).data();
    if (bytes != 0) std::memcpy(copy, request.send, bytes);
    reduction.scale(copy, count, what.prescale);
    return copy;
}

Done HostExecution::broadcast(const Communicator::Call& call, OwnRequest& request) {
    const int root = index_of(request.descriptor.root);
    if (communicator_.group().own == root && request.bytes != 0 && request.recv != request.send)
        std::memcpy(request.recv, request.send, request.bytes);
    const auto began = Clock::now();
    auto done = communicator_.broadcast(call, {request.recv, request.bytes}, root);
    if (done) transferred(request.descriptor, request.bytes, began);
    request.result_rows = request.rows;
    return done;
}

Done HostExecution::reduce(const Communicator::Call& call, OwnRequest& request) {
    const Descriptor& what = request.descriptor;
    const Reduction& reduction = *find_reduction(what.datatype, what.op);
    const std::size_t count = elements(what);
    const int root = index_of(what.root);
    const std::byte* send = scaled(request, count);
    const auto began = Clock::now();
    TRY(communicator_.reduce(call, reduction, send, request.recv, count, root));
    transferred(what, request.bytes, began);
    const bool is_root = communicator_.group().own == root;
    if (is_root && what.postscale != 1) reduction.scale(request.recv, count, what.postscale);
    request.result_rows = is_root ? request.rows : 0;
    return {};
}

Done HostExecution::reduce_scatter(const Communicator::Call& call, OwnRequest& request) {
    const Descriptor& what = request.descriptor;
    const Reduction& reduction = *find_reduction(what.datatype, what.op);
    const std::size_t row = row_elements(what);
    const auto counts = scatter_counts(request, communicator_.group().size());
    const std::size_t own = counts[static_cast<std::size_t>(communicator_.group().own)];
    std::byte* recv = result_memory(request, own * reduction.element_bytes);
    const std::byte* send = scaled(request, elements(what));
    const auto began = Clock::now();
    TRY(communicator_.reduce_scatter(call, reduction, send, recv, counts));
    transferred(what, request.bytes, began);
    if (what.postscale != 1) reduction.scale(recv, own, what.postscale);
    request.result_rows = row == 0 ? 0 : static_cast<std::int64_t>(own / row);
    return {};
}

Done HostExecution::allgather(const Communicator::Call& call, OwnRequest& request) {
    TRY(gather_row_counts(communicator_, call, request));
    const std::size_t bytes_each = row_bytes(request.descriptor);
    const std::size_t bytes = static_cast<std::size_t>(request.result_rows) * bytes_each;
    std::byte* recv = result_memory(request, bytes);
    const auto parts = cut(recv, request.received_rows, bytes_each);
    const Bytes own = parts[static_cast<std::size_t>(communicator_.group().own)];
    if (request.bytes != 0 && own.data() != request.send)
        std::memmove(own.data(), request.send, request.bytes);
    const auto began = Clock::now();
    auto done = communicator_.allgather(call, parts);
    if (done) transferred(request.descriptor, bytes, began);
    return done;
}

Done HostExecution::alltoall(const Communicator::Call& call, OwnRequest& request) {
    const auto splits = splits_of(request, communicator_.group().size());
    const auto lengths = TRY(exchange_row_counts(communicator_, call, splits, request));
    const std::size_t bytes_each = row_bytes(request.descriptor);
    const std::size_t bytes = static_cast<std::size_t>(request.result_rows) * bytes_each;
    std::byte* recv = result_memory(request, bytes);
    const auto began = Clock::now();
    auto done = communicator_.alltoall(call, cut(request.send, splits, bytes_each),
                                       cut(recv, request.received_rows, bytes_each), lengths);
    if (done) transferred(request.descriptor, request.bytes, began);
    return done;
}

Done HostExecution::run_single(const Communicator::Call& call, OwnRequest& request) {
    switch (request.descriptor.kind) {
        case Kind::broadcast:
            return broadcast(call, request);
        case Kind::reduce:
            return reduce(call, request);
        case Kind::reduce_scatter:
            return reduce_scatter(call, request);
        case Kind::allgather:
            return allgather(call, request);
        case Kind::alltoall:
            return alltoall(call, request);
        case Kind::barrier:
            return communicator_.barrier(call);
        default:
            return fail(MPIB_ERROR_INTERNAL, fmt::format("{} is not an operation of its own",
                                                         name_of(request.descriptor.kind)));
    }
}

}  // namespace mpi_bridge
