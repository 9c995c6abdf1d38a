// SPDX-License-Identifier: Apache-2.0
//
// Direct exchange, for vectors of medium length among few ranks: as few bytes as the ring,
// 2(n-1)/n of the vector per rank, and only two steps, but 2(n-1) messages. Halving and doubling
// needs fewer messages and waits more often.
//
// The vector is cut into one block per rank. Each rank sends every other rank the block that this
// one owns, and reduces its own block from what all have sent. Then it sends the result to all.
//
// The owner reduces in the order of the ranks, each block as soon as it and those of all lower
// ranks have arrived. So all ranks get the same bits, in every run.
//
// In place: values of recv are sent in the first step only. The result of another rank is received
// where the values were that this rank has sent it, once they are sent. So it has a place before it
// can arrive, and no rank keeps a message whose receive is not posted.
#include <vector>

#include "collectives/algorithms/collectives.hpp"
#include "collectives/chunks.hpp"

namespace mpi_bridge {
namespace {

constexpr std::uint32_t scatter_step = 0;
constexpr std::uint32_t gather_step = 1;

using AllPending = std::vector<Conversation::Pending>;

// Sends to all other ranks, first to the one after this rank, so that not all send to the same one
// at once. `part_for` returns what a rank gets.
template <typename PartFor>
Outcome<AllPending> send_to_all(Conversation& talk, std::uint32_t step, const PartFor& part_for) {
    AllPending sends;
    sends.reserve(static_cast<std::size_t>(talk.size()) - 1);
    for (int next = 1; next < talk.size(); ++next) {
        const int to = wrapped(talk.rank() + next, talk.size());
        auto pending = talk.send(to, step, part_for(to));
        if (!pending) return pass_on(std::move(pending));
        sends.push_back(*pending);
    }
    return sends;
}

// Returns the receives by rank; that of this rank itself is complete. `part_of` returns where the
// data of a rank goes. A receive is posted once the send to that rank in `sends` is complete, if
// there are any.
template <typename PartOf>
Outcome<AllPending> receive_from_all(Conversation& talk, std::uint32_t step, const PartOf& part_of,
                                     AllPending sends = {}) {
    AllPending receives(static_cast<std::size_t>(talk.size()));
    for (int next = 1; next < talk.size(); ++next) {
        const int from = wrapped(talk.rank() + next, talk.size());
        if (!sends.empty()) {
            auto sent = talk.wait(sends[static_cast<std::size_t>(next) - 1]);
            if (!sent) return pass_on(std::move(sent));
        }
        auto pending = talk.receive(from, step, part_of(from));
        if (!pending) return pass_on(std::move(pending));
        receives[static_cast<std::size_t>(from)] = *pending;
    }
    return receives;
}

}  // namespace

Done allreduce_direct(Conversation& talk, const Reducer& reducer, const std::byte* send,
                      std::byte* recv, std::size_t count) {
    if (reduced_alone(talk, reducer, send, recv, count)) return {};
    const auto blocks = Chunks::even(count, talk.size());
    const std::size_t value_bytes = reducer.value_bytes();
    const Slice own = blocks[talk.rank()];
    const std::size_t own_bytes = own.length * value_bytes;
    const std::size_t sums_bytes = own.length * reducer.accumulator_bytes();
    // Sums first: they are aligned for every type. The blocks of the others follow as bytes.
    const Bytes memory =
        talk.scratch().take(sums_bytes + static_cast<std::size_t>(talk.size()) * own_bytes);
    std::byte* const sums = memory.data();
    const auto arrived_from = [&](int rank) {
        return memory.subspan(sums_bytes + static_cast<std::size_t>(rank) * own_bytes, own_bytes);
    };

    auto receives = receive_from_all(talk, scatter_step, arrived_from);
    if (!receives) return pass_on(std::move(receives));
    auto sends = send_to_all(talk, scatter_step, [&](int to) {
        return ConstBytes(send + blocks[to].offset * value_bytes, blocks[to].length * value_bytes);
    });
    if (!sends) return pass_on(std::move(sends));
    auto results = receive_from_all(
        talk, gather_step,
        [&](int from) {
            return Bytes(recv + blocks[from].offset * value_bytes,
                         blocks[from].length * value_bytes);
        },
        std::move(*sends));
    if (!results) return pass_on(std::move(results));

    for (int rank = 0; rank < talk.size(); ++rank) {
        if (auto done = talk.wait((*receives)[static_cast<std::size_t>(rank)]); !done) return done;
        const std::byte* const values =
            rank == talk.rank() ? send + own.offset * value_bytes : arrived_from(rank).data();
        if (rank == 0)
            reducer.load(sums, values, own.length);
        else
            reducer.add(sums, values, own.length);
    }
    const Bytes result(recv + own.offset * value_bytes, own_bytes);
    reducer.store(result.data(), sums, own.length, talk.size());
    sends = send_to_all(talk, gather_step, [&](int) { return ConstBytes(result); });
    if (!sends) return pass_on(std::move(sends));
    if (auto done = talk.wait_all(*results); !done) return done;
    return talk.wait_all(*sends);
}

}  // namespace mpi_bridge
