// SPDX-License-Identifier: Apache-2.0
//
// The operations that never share a collective with another.
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include <fmt/core.h>

#include "collectives/chunks.hpp"
#include "engine/execution.hpp"
#include "reduce/reduction.hpp"

namespace mpi_bridge {
namespace {

// Where the result goes: the caller's memory or, without that, the entry's.
std::byte* result_memory(Entry& entry, std::size_t bytes) {
    if (entry.recv != nullptr) return entry.recv;
    entry.owned.resize(bytes);
    return entry.owned.data();
}

template <typename Span>
std::vector<Span> cut(typename Span::pointer memory, std::span<const std::int64_t> rows,
                      std::size_t row_bytes) {
    std::vector<Span> parts;
    std::size_t offset = 0;
    for (const std::int64_t count : rows) {
        const std::size_t length = static_cast<std::size_t>(count) * row_bytes;
        parts.emplace_back(memory == nullptr ? nullptr : memory + offset, length);
        offset += length;
    }
    return parts;
}

std::int64_t sum(std::span<const std::int64_t> values) {
    return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

}  // namespace

const std::byte* Execution::scaled(const Entry& entry, std::size_t count) {
    const Descriptor& what = entry.descriptor;
    if (what.prescale == 1) return entry.send;
    const Reduction& reduction = *find_reduction(what.datatype, what.op);
    const std::size_t bytes = count * reduction.element_bytes;
    std::byte* copy = workspace_.take(bytes).data();
    if (bytes != 0) std::memcpy(copy, entry.send, bytes);
    reduction.scale(copy, count, what.prescale);
    return copy;
}

Done Execution::broadcast(const Communicator::Call& call, Entry& entry) {
    const int root = index_of(entry.descriptor.root);
    if (communicator_.group().own == root && entry.bytes != 0 && entry.recv != entry.send)
        std::memcpy(entry.recv, entry.send, entry.bytes);
    const auto began = Clock::now();
    auto done = communicator_.broadcast(call, {entry.recv, entry.bytes}, root);
    if (done) transferred(entry.descriptor, entry.bytes, began);
    entry.result_rows = entry.rows;
    return done;
}

Done Execution::reduce(const Communicator::Call& call, Entry& entry) {
    const Descriptor& what = entry.descriptor;
    const Reduction& reduction = *find_reduction(what.datatype, what.op);
    const std::size_t count = elements(what);
    const int root = index_of(what.root);
    const std::byte* send = scaled(entry, count);
    const auto began = Clock::now();
    auto done = communicator_.reduce(call, reduction, send, entry.recv, count, root);
    if (!done) return done;
    transferred(what, entry.bytes, began);
    const bool is_root = communicator_.group().own == root;
    if (is_root && what.postscale != 1) reduction.scale(entry.recv, count, what.postscale);
    entry.result_rows = is_root ? entry.rows : 0;
    return {};
}

Done Execution::reduce_scatter(const Communicator::Call& call, Entry& entry) {
    const Descriptor& what = entry.descriptor;
    const Reduction& reduction = *find_reduction(what.datatype, what.op);
    const std::size_t row = row_elements(what);
    std::vector<std::size_t> counts;
    for (const Slice& part :
         even_chunks(static_cast<std::size_t>(entry.rows), communicator_.group().size()))
        counts.push_back(part.length * row);
    const std::size_t own = counts[static_cast<std::size_t>(communicator_.group().own)];
    std::byte* recv = result_memory(entry, own * reduction.element_bytes);
    const std::byte* send = scaled(entry, elements(what));
    const auto began = Clock::now();
    auto done = communicator_.reduce_scatter(call, reduction, send, recv, counts);
    if (!done) return done;
    transferred(what, entry.bytes, began);
    if (what.postscale != 1) reduction.scale(recv, own, what.postscale);
    entry.result_rows = row == 0 ? 0 : static_cast<std::int64_t>(own / row);
    return {};
}

// The lengths of the first dimension go ahead of the data.
Done Execution::allgather(const Communicator::Call& call, Entry& entry) {
    const auto members = static_cast<std::size_t>(communicator_.group().size());
    const auto own = static_cast<std::size_t>(communicator_.group().own);
    const std::size_t row_bytes =
        row_elements(entry.descriptor) * datatype_bytes(entry.descriptor.datatype);
    entry.received_rows.assign(members, 0);
    entry.received_rows[own] = entry.rows;
    const std::vector<std::int64_t> one_each(members, 1);
    auto* rows = reinterpret_cast<std::byte*>(entry.received_rows.data());
    auto done = communicator_.allgather(call, cut<Bytes>(rows, one_each, sizeof(std::int64_t)));
    if (!done) return done;
    entry.result_rows = sum(entry.received_rows);
    const std::size_t bytes = static_cast<std::size_t>(entry.result_rows) * row_bytes;
    std::byte* recv = result_memory(entry, bytes);
    const auto parts = cut<Bytes>(recv, entry.received_rows, row_bytes);
    if (entry.bytes != 0 && parts[own].data() != entry.send)
        std::memmove(parts[own].data(), entry.send, entry.bytes);
    const auto began = Clock::now();
    done = communicator_.allgather(call, parts);
    if (done) transferred(entry.descriptor, bytes, began);
    return done;
}

Done Execution::alltoall(const Communicator::Call& call, Entry& entry) {
    const auto members = static_cast<std::size_t>(communicator_.group().size());
    const std::size_t row_bytes =
        row_elements(entry.descriptor) * datatype_bytes(entry.descriptor.datatype);
    std::vector<std::int64_t> splits = entry.splits;
    if (splits.empty()) splits.assign(members, entry.rows / static_cast<std::int64_t>(members));
    entry.received_rows.assign(members, 0);
    const std::vector<std::int64_t> one_each(members, 1);
    const auto* to = reinterpret_cast<const std::byte*>(splits.data());
    auto* from = reinterpret_cast<std::byte*>(entry.received_rows.data());
    auto done = communicator_.alltoall(call, cut<ConstBytes>(to, one_each, sizeof(std::int64_t)),
                                       cut<Bytes>(from, one_each, sizeof(std::int64_t)));
    if (!done) return done;
    entry.result_rows = sum(entry.received_rows);
    const std::size_t bytes = static_cast<std::size_t>(entry.result_rows) * row_bytes;
    std::byte* recv = result_memory(entry, bytes);
    const auto began = Clock::now();
    done = communicator_.alltoall(call, cut<ConstBytes>(entry.send, splits, row_bytes),
                                  cut<Bytes>(recv, entry.received_rows, row_bytes));
    if (done) transferred(entry.descriptor, entry.bytes, began);
    return done;
}

Done Execution::run_single(const Communicator::Call& call, Entry& entry) {
    switch (entry.descriptor.kind) {
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
                                                         name_of(entry.descriptor.kind)));
    }
}

}  // namespace mpi_bridge
