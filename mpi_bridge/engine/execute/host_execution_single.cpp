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

// Where the result goes: into the caller's memory, or into the entry's if the caller gave none.
std::byte* result_memory(Entry& entry, std::size_t bytes) {
    if (entry.recv != nullptr) return entry.recv;
    entry.owned.resize(bytes);
    return entry.owned.data();
}

}  // namespace

const std::byte* HostExecution::scaled(const Entry& entry, std::size_t count) {
    const Descriptor& what = entry.descriptor();
    if (what.prescale == 1) return entry.send;
    const Reduction& reduction = *find_reduction(what.datatype, what.op);
    const std::size_t bytes = count * reduction.element_bytes;
    std::byte* copy = scratch_.take(bytes).data();
    if (bytes != 0) std::memcpy(copy, entry.send, bytes);
    reduction.scale(copy, count, what.prescale);
    return copy;
}

Done HostExecution::broadcast(const Communicator::Call& call, Entry& entry) {
    const int root = index_of(entry.descriptor().root);
    if (communicator_.group().own == root && entry.bytes != 0 && entry.recv != entry.send)
        std::memcpy(entry.recv, entry.send, entry.bytes);
    const auto began = Clock::now();
    auto done = communicator_.broadcast(call, {entry.recv, entry.bytes}, root);
    if (done) transferred(entry.descriptor(), entry.bytes, began);
    entry.result_rows = entry.rows;
    return done;
}

Done HostExecution::reduce(const Communicator::Call& call, Entry& entry) {
    const Descriptor& what = entry.descriptor();
    const Reduction& reduction = *find_reduction(what.datatype, what.op);
    const std::size_t count = elements(what);
    const int root = index_of(what.root);
    const std::byte* send = scaled(entry, count);
    const auto began = Clock::now();
    TRY(communicator_.reduce(call, reduction, send, entry.recv, count, root));
    transferred(what, entry.bytes, began);
    const bool is_root = communicator_.group().own == root;
    if (is_root && what.postscale != 1) reduction.scale(entry.recv, count, what.postscale);
    entry.result_rows = is_root ? entry.rows : 0;
    return {};
}

Done HostExecution::reduce_scatter(const Communicator::Call& call, Entry& entry) {
    const Descriptor& what = entry.descriptor();
    const Reduction& reduction = *find_reduction(what.datatype, what.op);
    const std::size_t row = row_elements(what);
    const auto counts = scatter_counts(entry, communicator_.group().size());
    const std::size_t own = counts[static_cast<std::size_t>(communicator_.group().own)];
    std::byte* recv = result_memory(entry, own * reduction.element_bytes);
    const std::byte* send = scaled(entry, elements(what));
    const auto began = Clock::now();
    TRY(communicator_.reduce_scatter(call, reduction, send, recv, counts));
    transferred(what, entry.bytes, began);
    if (what.postscale != 1) reduction.scale(recv, own, what.postscale);
    entry.result_rows = row == 0 ? 0 : static_cast<std::int64_t>(own / row);
    return {};
}

Done HostExecution::allgather(const Communicator::Call& call, Entry& entry) {
    TRY(gather_row_counts(communicator_, call, entry));
    const std::size_t bytes_each = row_bytes(entry.descriptor());
    const std::size_t bytes = static_cast<std::size_t>(entry.result_rows) * bytes_each;
    std::byte* recv = result_memory(entry, bytes);
    const auto parts = cut(recv, entry.received_rows, bytes_each);
    const Bytes own = parts[static_cast<std::size_t>(communicator_.group().own)];
    if (entry.bytes != 0 && own.data() != entry.send)
        std::memmove(own.data(), entry.send, entry.bytes);
    const auto began = Clock::now();
    auto done = communicator_.allgather(call, parts);
    if (done) transferred(entry.descriptor(), bytes, began);
    return done;
}

Done HostExecution::alltoall(const Communicator::Call& call, Entry& entry) {
    const auto splits = splits_of(entry, communicator_.group().size());
    TRY(exchange_row_counts(communicator_, call, splits, entry));
    const std::size_t bytes_each = row_bytes(entry.descriptor());
    const std::size_t bytes = static_cast<std::size_t>(entry.result_rows) * bytes_each;
    std::byte* recv = result_memory(entry, bytes);
    const auto began = Clock::now();
    auto done = communicator_.alltoall(call, cut(entry.send, splits, bytes_each),
                                       cut(recv, entry.received_rows, bytes_each));
    if (done) transferred(entry.descriptor(), entry.bytes, began);
    return done;
}

Done HostExecution::run_single(const Communicator::Call& call, Entry& entry) {
    switch (entry.descriptor().kind) {
        case Kind::broadcast:
            return broadcast(call, entry);
        case Kind::reduce:
            return reduce(call, entry);
        case Kind::reduce_scatter:
            return reduce_scatter(call, entry);
        case Kind::allgather:
            return allgather(call, entry);
        case Kind::alltoall:
            return alltoall(call, entry);
        case Kind::barrier:
            return communicator_.barrier(call);
        default:
            return fail(MPIB_ERROR_INTERNAL, fmt::format("{} is not an operation of its own",
                                                         name_of(entry.descriptor().kind)));
    }
}

}  // namespace mpi_bridge
