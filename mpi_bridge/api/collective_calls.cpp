// SPDX-License-Identifier: Apache-2.0
//
// The collective functions of the C API: they check the arguments, compute the digest of what all
// ranks must agree on, and run the chosen algorithm.
#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include "api/arguments.hpp"
#include "api/guard.hpp"
#include "api/library.hpp"
#include "core/overlap.hpp"
#include "mpi_bridge.h"
#include "reduce/reduction.hpp"

namespace mpi_bridge {
namespace {

Outcome<std::size_t> ranks_for(std::string_view call) {
    const Topology* topology = Library::instance().topology();
    if (topology == nullptr) return not_initialized(call);
    return static_cast<std::size_t>(topology->size);
}

std::size_t own_rank() {
    const Topology* topology = Library::instance().topology();
    return topology == nullptr ? 0 : static_cast<std::size_t>(topology->rank);
}

Outcome<const Reduction*> reduction_for(std::string_view call, mpib_datatype datatype, mpib_op op) {
    const Reduction* reduction = find_reduction(datatype, op);
    if (reduction == nullptr) return invalid(call, why_no_reduction(datatype, op));
    return reduction;
}

// For allreduce and reduce; `receives` is false where this rank gets no result and `recv` is not
// used.
Done check_vectors(std::string_view call, const Reduction& reduction, const void* send,
                   const void* recv, bool receives, std::size_t count) {
    if (too_many(count, 2 * reduction.accumulator_bytes)) return invalid(call, "count too large");
    const std::size_t bytes = count * reduction.element_bytes;
    if (missing(send, bytes) || (receives && missing(recv, bytes))) {
        return invalid(call, "a buffer is NULL");
    }
    if (receives && send != recv && overlap(send, bytes, recv, bytes)) {
        return invalid(call, "send and recv overlap but are not the same buffer");
    }
    return {};
}

Done allreduce(const void* send, void* recv, std::size_t count, mpib_datatype datatype,
               mpib_op op) {
    constexpr std::string_view call = "mpib_allreduce";
    TRY(ranks_for(call));
    const auto reduction = TRY(reduction_for(call, datatype, op));
    TRY(check_vectors(call, *reduction, send, recv, true, count));
    const std::size_t bytes = count * reduction->element_bytes;
    const auto agreement = Agreement(MPIB_ALLREDUCE)
                               .add(static_cast<std::uint64_t>(datatype))
                               .add(static_cast<std::uint64_t>(op))
                               .add(count);
    return Library::instance().run({call, MPIB_ALLREDUCE, agreement.digest(), bytes, bytes},
                                   [&](Communicator& ranks, const Communicator::Call& identity) {
                                       return ranks.allreduce(identity, *reduction,
                                                              static_cast<const std::byte*>(send),
                                                              static_cast<std::byte*>(recv), count);
                                   });
}

Done check_root(std::string_view call, int root, std::size_t ranks) {
    if (root >= 0 && static_cast<std::size_t>(root) < ranks) return {};
    return invalid(call, "root " + std::to_string(root) + " is not one of the " +
                             std::to_string(ranks) + " ranks");
}

Done reduce(const void* send, void* recv, std::size_t count, mpib_datatype datatype, mpib_op op,
            int root) {
    constexpr std::string_view call = "mpib_reduce";
    const auto ranks = TRY(ranks_for(call));
    const auto reduction = TRY(reduction_for(call, datatype, op));
    TRY(check_root(call, root, ranks));
    const bool receives = static_cast<std::size_t>(root) == own_rank();
    TRY(check_vectors(call, *reduction, send, recv, receives, count));
    const std::size_t bytes = count * reduction->element_bytes;
    const auto agreement = Agreement(MPIB_REDUCE)
                               .add(static_cast<std::uint64_t>(datatype))
                               .add(static_cast<std::uint64_t>(op))
                               .add(count)
                               .add(static_cast<std::uint64_t>(root));
    return Library::instance().run(
        {call, MPIB_REDUCE, agreement.digest(), bytes, bytes},
        [&](Communicator& all, const Communicator::Call& identity) {
            return all.reduce(identity, *reduction, static_cast<const std::byte*>(send),
                              static_cast<std::byte*>(recv), count, root);
        });
}

Done broadcast(void* buffer, std::size_t bytes, int root) {
    constexpr std::string_view call = "mpib_broadcast";
    const auto ranks = TRY(ranks_for(call));
    if (missing(buffer, bytes)) return invalid(call, "the buffer is NULL");
    TRY(check_root(call, root, ranks));
    const auto agreement =
        Agreement(MPIB_BROADCAST).add(bytes).add(static_cast<std::uint64_t>(root));
    const Bytes data(static_cast<std::byte*>(buffer), bytes);
    return Library::instance().run({call, MPIB_BROADCAST, agreement.digest(), bytes, bytes},
                                   [&](Communicator& all, const Communicator::Call& identity) {
                                       return all.broadcast(identity, data, root);
                                   });
}

Done gather_parts(std::string_view call, const void* send, std::span<const Bytes> parts) {
    const Bytes own = parts[own_rank()];
    if (missing(send, own.size())) return invalid(call, "the send buffer is NULL");
    const bool overlaps = std::any_of(parts.begin(), parts.end(), [&](Bytes part) {
        return overlap(send, own.size(), part.data(), part.size());
    });
    if (overlaps && send != own.data())
        return invalid(call, "send overlaps recv but is not this rank's place in it");
    Agreement agreement(MPIB_ALLGATHER);
    std::size_t total = 0;
    for (const Bytes part : parts) {
        agreement.add(part.size());
        total += part.size();
    }
    return Library::instance().run({call, MPIB_ALLGATHER, agreement.digest(), own.size(), total},
                                   [&](Communicator& all, const Communicator::Call& identity) {
                                       if (!own.empty() && send != own.data())
                                           std::memcpy(own.data(), send, own.size());
                                       return all.allgather(identity, parts);
                                   });
}

Done allgather(const void* send, void* recv, std::size_t bytes_per_rank) {
    constexpr std::string_view call = "mpib_allgather";
    const auto ranks = TRY(ranks_for(call));
    if (too_many(ranks, bytes_per_rank)) return invalid(call, "bytes_per_rank too large");
    if (missing(recv, bytes_per_rank)) return invalid(call, "the receive buffer is NULL");
    const std::vector<std::size_t> lengths(ranks, bytes_per_rank);
    return gather_parts(call, send,
                        parts_of<Bytes>(static_cast<std::byte*>(recv), lengths, nullptr));
}

Done allgatherv(const void* send, std::size_t send_bytes, void* recv, const std::size_t* recv_bytes,
                const std::size_t* displacements) {
    constexpr std::string_view call = "mpib_allgatherv";
    const auto ranks = TRY(ranks_for(call));
    if (recv_bytes == nullptr) return invalid(call, "recv_bytes is NULL");
    const std::span lengths(recv_bytes, ranks);
    if (too_long(lengths)) return invalid(call, "recv_bytes add up to more than memory");
    if (send_bytes != lengths[own_rank()]) {
        return invalid(call, "send_bytes is " + std::to_string(send_bytes) +
                                 " but recv_bytes of this rank is " +
                                 std::to_string(lengths[own_rank()]));
    }
    if (missing(recv, sum_of(lengths))) return invalid(call, "the receive buffer is NULL");
    return gather_parts(call, send,
                        parts_of<Bytes>(static_cast<std::byte*>(recv), lengths, displacements));
}

Done reduce_scatter(const void* send, void* recv, const std::size_t* counts, mpib_datatype datatype,
                    mpib_op op) {
    constexpr std::string_view call = "mpib_reduce_scatter";
    const auto ranks = TRY(ranks_for(call));
    const Reduction& reduction = *TRY(reduction_for(call, datatype, op));
    if (counts == nullptr) return invalid(call, "counts is NULL");
    const std::span lengths(counts, ranks);
    if (too_long(lengths)) return invalid(call, "counts add up to more than memory");
    const std::size_t total = sum_of(lengths);
    if (too_many(total, reduction.accumulator_bytes)) return invalid(call, "counts too large");
    const std::size_t send_bytes = total * reduction.element_bytes;
    const std::size_t recv_bytes = lengths[own_rank()] * reduction.element_bytes;
    if (missing(send, send_bytes) || missing(recv, recv_bytes)) {
        return invalid(call, "a buffer is NULL");
    }
    if (overlap(send, send_bytes, recv, recv_bytes)) return invalid(call, "the buffers overlap");
    Agreement agreement(MPIB_REDUCE_SCATTER);
    agreement.add(static_cast<std::uint64_t>(datatype)).add(static_cast<std::uint64_t>(op));
    for (const std::size_t length : lengths)
        agreement.add(length);
    return Library::instance().run(
        {call, MPIB_REDUCE_SCATTER, agreement.digest(), send_bytes, send_bytes},
        [&](Communicator& all, const Communicator::Call& identity) {
            return all.reduce_scatter(identity, reduction, static_cast<const std::byte*>(send),
                                      static_cast<std::byte*>(recv), lengths);
        });
}

// Whether any part of one list overlaps a part of the other. If the ranges that the two lists span
// have nothing in common, no part does. Otherwise every pair is checked, because one list may lie
// in the gaps of the other.
bool overlap_anywhere(std::span<const ConstBytes> out, std::span<const Bytes> in) {
    const auto stretch = [](const auto& parts) {
        const std::byte* first = nullptr;
        const std::byte* last = nullptr;
        for (const auto& part : parts) {
            if (part.empty()) continue;
            const std::byte* const begin = part.data();
            if (first == nullptr || std::less<>()(begin, first)) first = begin;
            if (last == nullptr || std::less<>()(last, begin + part.size())) {
                last = begin + part.size();
            }
        }
        return ConstBytes(first, static_cast<std::size_t>(last - first));
    };
    const ConstBytes sent = stretch(out);
    const ConstBytes received = stretch(in);
    if (!overlap(sent.data(), sent.size(), received.data(), received.size())) return false;
    return std::any_of(out.begin(), out.end(), [&](const ConstBytes& from) {
        return std::any_of(in.begin(), in.end(), [&](const Bytes& to) {
            return overlap(from.data(), from.size(), to.data(), to.size());
        });
    });
}

Done alltoallv(std::string_view call, const void* send, const std::size_t* send_bytes,
               const std::size_t* send_displacements, void* recv, const std::size_t* recv_bytes,
               const std::size_t* recv_displacements, std::optional<std::size_t> common_length) {
    const auto ranks = TRY(ranks_for(call));
    if (send_bytes == nullptr || recv_bytes == nullptr) return invalid(call, "lengths are NULL");
    const std::span out_lengths(send_bytes, ranks);
    const std::span in_lengths(recv_bytes, ranks);
    if (too_long(out_lengths) || too_long(in_lengths)) {
        return invalid(call, "the lengths add up to more than memory");
    }
    if (missing(send, sum_of(out_lengths)) || missing(recv, sum_of(in_lengths))) {
        return invalid(call, "a buffer is NULL");
    }
    if (out_lengths[own_rank()] != in_lengths[own_rank()]) {
        return invalid(call, "this rank sends itself another length than it receives");
    }
    const auto out =
        parts_of<ConstBytes>(static_cast<const std::byte*>(send), out_lengths, send_displacements);
    const auto in = parts_of<Bytes>(static_cast<std::byte*>(recv), in_lengths, recv_displacements);
    if (overlap_anywhere(out, in)) return invalid(call, "the buffers overlap");
    constexpr std::size_t lengths_differ = ~std::size_t{0};
    const auto agreement = Agreement(MPIB_ALLTOALL).add(common_length.value_or(lengths_differ));
    std::optional<MessageLengths> known;
    if (common_length) known = {.longest = *common_length, .equal = true};
    const std::size_t bytes = sum_of(out_lengths);
    return Library::instance().run({call, MPIB_ALLTOALL, agreement.digest(), bytes, bytes},
                                   [&](Communicator& all, const Communicator::Call& identity) {
                                       return all.alltoall(identity, out, in, known);
                                   });
}

Done alltoall(const void* send, void* recv, std::size_t bytes_per_pair) {
    constexpr std::string_view call = "mpib_alltoall";
    const auto ranks = TRY(ranks_for(call));
    if (too_many(ranks, bytes_per_pair)) return invalid(call, "bytes_per_pair too large");
    if (overlap(send, ranks * bytes_per_pair, recv, ranks * bytes_per_pair)) {
        return invalid(call, "the buffers overlap");
    }
    const std::vector<std::size_t> lengths(ranks, bytes_per_pair);
    return alltoallv(call, send, lengths.data(), nullptr, recv, lengths.data(), nullptr,
                     bytes_per_pair);
}

Done barrier() {
    return Library::instance().run(
        {"mpib_barrier", MPIB_BARRIER, Agreement(MPIB_BARRIER).digest(), 0, 0},
        [](Communicator& all, const Communicator::Call& identity) {
            return all.barrier(identity);
        });
}

}  // namespace
}  // namespace mpi_bridge

using mpi_bridge::guarded;

mpib_status mpib_allreduce(const void* send, void* recv, size_t count, mpib_datatype datatype,
                           mpib_op op) {
    return guarded([&] { return mpi_bridge::allreduce(send, recv, count, datatype, op); });
}

mpib_status mpib_reduce(const void* send, void* recv, size_t count, mpib_datatype datatype,
                        mpib_op op, int root) {
    return guarded([&] { return mpi_bridge::reduce(send, recv, count, datatype, op, root); });
}

mpib_status mpib_broadcast(void* buffer, size_t bytes, int root) {
    return guarded([&] { return mpi_bridge::broadcast(buffer, bytes, root); });
}

mpib_status mpib_allgather(const void* send, void* recv, size_t bytes_per_rank) {
    return guarded([&] { return mpi_bridge::allgather(send, recv, bytes_per_rank); });
}

mpib_status mpib_allgatherv(const void* send, size_t send_bytes, void* recv,
                            const size_t* recv_bytes, const size_t* displacements) {
    return guarded(
        [&] { return mpi_bridge::allgatherv(send, send_bytes, recv, recv_bytes, displacements); });
}

mpib_status mpib_reduce_scatter(const void* send, void* recv, const size_t* counts,
                                mpib_datatype datatype, mpib_op op) {
    return guarded([&] { return mpi_bridge::reduce_scatter(send, recv, counts, datatype, op); });
}

mpib_status mpib_alltoall(const void* send, void* recv, size_t bytes_per_pair) {
    return guarded([&] { return mpi_bridge::alltoall(send, recv, bytes_per_pair); });
}

mpib_status mpib_alltoallv(const void* send, const size_t* send_bytes,
                           const size_t* send_displacements, void* recv, const size_t* recv_bytes,
                           const size_t* recv_displacements) {
    return guarded([&] {
        return mpi_bridge::alltoallv("mpib_alltoallv", send, send_bytes, send_displacements, recv,
                                     recv_bytes, recv_displacements, std::nullopt);
    });
}

mpib_status mpib_barrier(void) {
    return guarded(mpi_bridge::barrier);
}
