// SPDX-License-Identifier: Apache-2.0
//
// The collective functions of the C API: they check arguments, note in what all ranks must agree,
// and run the chosen algorithm.
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "api/guard.hpp"
#include "api/library.hpp"
#include "collectives/collectives.hpp"
#include "mpi_bridge.h"
#include "reduce/reduction.hpp"

namespace mpi_bridge {
namespace {

enum class Kind : std::uint64_t {
    allreduce = 1,
    broadcast,
    allgather,
    reduce_scatter,
    alltoall,
    barrier
};

// FNV-1a over what all ranks must pass alike.
class Agreement {
  public:
    explicit Agreement(Kind kind) { add(static_cast<std::uint64_t>(kind)); }
    Agreement& add(std::uint64_t value) {
        for (unsigned shift = 0; shift < 64; shift += 8) {
            digest_ = (digest_ ^ ((value >> shift) & 0xffU)) * 0x100000001b3U;
        }
        return *this;
    }
    [[nodiscard]] std::uint64_t digest() const { return digest_; }

  private:
    std::uint64_t digest_ = 0xcbf29ce484222325U;
};

tl::unexpected<Failure> invalid(std::string_view call, std::string_view what) {
    return fail(MPIB_ERROR_INVALID_ARGUMENT, std::string(call) + ": " + std::string(what));
}

Outcome<std::size_t> ranks_for(std::string_view call) {
    const Topology* topology = Library::instance().topology();
    if (topology == nullptr) {
        return fail(MPIB_ERROR_NOT_INITIALIZED, std::string(call) + ": call mpib_init first");
    }
    return static_cast<std::size_t>(topology->size);
}

std::size_t own_rank() {
    const Topology* topology = Library::instance().topology();
    return topology == nullptr ? 0 : static_cast<std::size_t>(topology->rank);
}

bool overlap(const void* a, const void* b, std::size_t bytes_a, std::size_t bytes_b) {
    const auto* first = static_cast<const std::byte*>(a);
    const auto* second = static_cast<const std::byte*>(b);
    const std::less<> before;
    return bytes_a != 0 && bytes_b != 0 && before(first, second + bytes_b) &&
           before(second, first + bytes_a);
}

bool missing(const void* pointer, std::size_t bytes) {
    return pointer == nullptr && bytes != 0;
}

bool too_many(std::size_t count, std::size_t each) {
    return count != 0 && each > std::numeric_limits<std::size_t>::max() / count;
}

// Cuts memory into one part per rank. Without displacements the parts follow each other.
template <typename Span>
std::vector<Span> parts_of(typename Span::pointer memory, std::span<const std::size_t> lengths,
                           const std::size_t* displacements) {
    std::vector<Span> parts;
    std::size_t packed = 0;
    for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
        const std::size_t at = displacements == nullptr ? packed : displacements[rank];
        // No arithmetic on a pointer to nothing.
        parts.push_back(lengths[rank] == 0 ? Span() : Span(memory + at, lengths[rank]));
        packed += lengths[rank];
    }
    return parts;
}

std::size_t sum_of(std::span<const std::size_t> lengths) {
    std::size_t sum = 0;
    for (const std::size_t length : lengths)
        sum += length;
    return sum;
}

Done allreduce(const void* send, void* recv, std::size_t count, mpib_datatype datatype,
               mpib_op op) {
    constexpr std::string_view call = "mpib_allreduce";
    if (auto ranks = ranks_for(call); !ranks) return pass_on(std::move(ranks));
    const Reduction* reduction = find_reduction(datatype, op);
    if (reduction == nullptr) return invalid(call, "unknown datatype or operation");
    if (too_many(count, 2 * reduction->accumulator_bytes)) return invalid(call, "count too large");
    const std::size_t bytes = count * reduction->element_bytes;
    if (missing(send, bytes) || missing(recv, bytes)) return invalid(call, "a buffer is NULL");
    if (send != recv && overlap(send, recv, bytes, bytes)) {
        return invalid(call, "send and recv overlap but are not the same buffer");
    }
    const auto algorithm = Library::instance().choose_allreduce(bytes);
    const bool ring = algorithm == AllreduceAlgorithm::ring;
    const auto agreement = Agreement(Kind::allreduce)
                               .add(static_cast<std::uint64_t>(datatype))
                               .add(static_cast<std::uint64_t>(op))
                               .add(count)
                               .add(static_cast<std::uint64_t>(algorithm));
    const auto* from = static_cast<const std::byte*>(send);
    auto* to = static_cast<std::byte*>(recv);
    const auto body = [&](Conversation& talk) {
        return ring ? allreduce_ring(talk, *reduction, from, to, count)
                    : allreduce_recursive_doubling(talk, *reduction, from, to, count);
    };
    const auto* name = ring ? "mpib_allreduce (ring)" : "mpib_allreduce (recursive doubling)";
    return Library::instance().run({name, agreement.digest()}, body);
}

Done broadcast(void* buffer, std::size_t bytes, int root) {
    constexpr std::string_view call = "mpib_broadcast";
    auto ranks = ranks_for(call);
    if (!ranks) return pass_on(std::move(ranks));
    if (missing(buffer, bytes)) return invalid(call, "the buffer is NULL");
    if (root < 0 || static_cast<std::size_t>(root) >= *ranks) {
        return invalid(call, "root " + std::to_string(root) + " is not one of the " +
                                 std::to_string(*ranks) + " ranks");
    }
    const auto agreement =
        Agreement(Kind::broadcast).add(bytes).add(static_cast<std::uint64_t>(root));
    const Bytes data(static_cast<std::byte*>(buffer), bytes);
    return Library::instance().run({call, agreement.digest()}, [&](Conversation& talk) {
        return broadcast_binomial(talk, data, root);
    });
}

Done gather_parts(std::string_view call, const void* send, std::span<const Bytes> parts) {
    const Bytes own = parts[own_rank()];
    if (missing(send, own.size())) return invalid(call, "the send buffer is NULL");
    if (send != own.data() && overlap(send, own.data(), own.size(), own.size())) {
        return invalid(call, "send overlaps its place in recv but is not that place");
    }
    Agreement agreement(Kind::allgather);
    for (const Bytes part : parts)
        agreement.add(part.size());
    return Library::instance().run({call, agreement.digest()}, [&](Conversation& talk) {
        if (!own.empty() && send != own.data()) std::memcpy(own.data(), send, own.size());
        return allgather_ring(talk, parts);
    });
}

Done allgather(const void* send, void* recv, std::size_t bytes_per_rank) {
    constexpr std::string_view call = "mpib_allgather";
    auto ranks = ranks_for(call);
    if (!ranks) return pass_on(std::move(ranks));
    if (too_many(*ranks, bytes_per_rank)) return invalid(call, "bytes_per_rank too large");
    if (missing(recv, bytes_per_rank)) return invalid(call, "the receive buffer is NULL");
    const std::vector<std::size_t> lengths(*ranks, bytes_per_rank);
    return gather_parts(call, send,
                        parts_of<Bytes>(static_cast<std::byte*>(recv), lengths, nullptr));
}

Done allgatherv(const void* send, std::size_t send_bytes, void* recv, const std::size_t* recv_bytes,
                const std::size_t* displacements) {
    constexpr std::string_view call = "mpib_allgatherv";
    auto ranks = ranks_for(call);
    if (!ranks) return pass_on(std::move(ranks));
    if (recv_bytes == nullptr) return invalid(call, "recv_bytes is NULL");
    const std::span lengths(recv_bytes, *ranks);
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
    auto ranks = ranks_for(call);
    if (!ranks) return pass_on(std::move(ranks));
    const Reduction* reduction = find_reduction(datatype, op);
    if (reduction == nullptr) return invalid(call, "unknown datatype or operation");
    if (counts == nullptr) return invalid(call, "counts is NULL");
    const std::span lengths(counts, *ranks);
    const std::size_t total = sum_of(lengths);
    if (too_many(total, reduction->accumulator_bytes)) return invalid(call, "counts too large");
    const std::size_t send_bytes = total * reduction->element_bytes;
    const std::size_t recv_bytes = lengths[own_rank()] * reduction->element_bytes;
    if (missing(send, send_bytes) || missing(recv, recv_bytes)) {
        return invalid(call, "a buffer is NULL");
    }
    if (overlap(send, recv, send_bytes, recv_bytes)) return invalid(call, "the buffers overlap");
    Agreement agreement(Kind::reduce_scatter);
    agreement.add(static_cast<std::uint64_t>(datatype)).add(static_cast<std::uint64_t>(op));
    for (const std::size_t length : lengths)
        agreement.add(length);
    return Library::instance().run({call, agreement.digest()}, [&](Conversation& talk) {
        return reduce_scatter_ring(talk, *reduction, static_cast<const std::byte*>(send),
                                   static_cast<std::byte*>(recv), lengths);
    });
}

Done alltoallv(std::string_view call, const void* send, const std::size_t* send_bytes,
               const std::size_t* send_displacements, void* recv, const std::size_t* recv_bytes,
               const std::size_t* recv_displacements, std::uint64_t common_length) {
    auto ranks = ranks_for(call);
    if (!ranks) return pass_on(std::move(ranks));
    if (send_bytes == nullptr || recv_bytes == nullptr) return invalid(call, "lengths are NULL");
    const std::span out_lengths(send_bytes, *ranks);
    const std::span in_lengths(recv_bytes, *ranks);
    if (missing(send, sum_of(out_lengths)) || missing(recv, sum_of(in_lengths))) {
        return invalid(call, "a buffer is NULL");
    }
    if (out_lengths[own_rank()] != in_lengths[own_rank()]) {
        return invalid(call, "this rank sends itself another length than it receives");
    }
    const auto out =
        parts_of<ConstBytes>(static_cast<const std::byte*>(send), out_lengths, send_displacements);
    const auto in = parts_of<Bytes>(static_cast<std::byte*>(recv), in_lengths, recv_displacements);
    const auto agreement = Agreement(Kind::alltoall).add(common_length);
    return Library::instance().run({call, agreement.digest()}, [&](Conversation& talk) {
        return alltoall_pairwise(talk, out, in);
    });
}

Done alltoall(const void* send, void* recv, std::size_t bytes_per_pair) {
    constexpr std::string_view call = "mpib_alltoall";
    auto ranks = ranks_for(call);
    if (!ranks) return pass_on(std::move(ranks));
    if (too_many(*ranks, bytes_per_pair)) return invalid(call, "bytes_per_pair too large");
    if (overlap(send, recv, *ranks * bytes_per_pair, *ranks * bytes_per_pair)) {
        return invalid(call, "the buffers overlap");
    }
    const std::vector<std::size_t> lengths(*ranks, bytes_per_pair);
    return alltoallv(call, send, lengths.data(), nullptr, recv, lengths.data(), nullptr,
                     bytes_per_pair);
}

Done barrier() {
    return Library::instance().run({"mpib_barrier", Agreement(Kind::barrier).digest()},
                                   barrier_dissemination);
}

}  // namespace
}  // namespace mpi_bridge

using mpi_bridge::guarded;

mpib_status mpib_allreduce(const void* send, void* recv, size_t count, mpib_datatype datatype,
                           mpib_op op) {
    return guarded([&] { return mpi_bridge::allreduce(send, recv, count, datatype, op); });
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
    constexpr std::uint64_t lengths_differ = ~std::uint64_t{0};
    return guarded([&] {
        return mpi_bridge::alltoallv("mpib_alltoallv", send, send_bytes, send_displacements, recv,
                                     recv_bytes, recv_displacements, lengths_differ);
    });
}

mpib_status mpib_barrier(void) {
    return guarded(mpi_bridge::barrier);
}
