// SPDX-License-Identifier: Apache-2.0
//
// Direct exchange, for vectors of medium length among few ranks: as few bytes as the ring,
// 2(n-1)/n of the vector per rank, and only two steps, but 2(n-1) messages. Halving and doubling
// needs fewer messages and waits more often.
//
// The vector is cut into one block per rank. Each rank sends every other rank the block that this
// one owns, and reduces its own block from what all have sent. Then it sends the result to all.
//
// The owner of a block reduces its own values first and then those of the other ranks, from the one
// before it downwards. Values arrive in about this order, so most of them are reduced while others
// arrive, and in every run in the same order. All ranks get the result of the one owner, with the
// same bits.
//
// In place: values of recv are sent in the first step only, and the result of another rank is
// received where the values were that this rank has sent it. So that a result rarely arrives before
// its receive is posted, which would cost a copy, all receives are posted as early as this allows.
#include <vector>

#include "collectives/algorithms/collectives.hpp"
#include "collectives/chunks.hpp"

namespace mpi_bridge {
namespace {

constexpr std::uint32_t direct_scatter_step = 0;
constexpr std::uint32_t direct_gather_step = 1;

using AllPending = std::vector<Conversation::Pending>;

// Sends to all other ranks, first to the one after this rank, so that not all send to the same one
// at once. `part_for` returns what a rank gets.
template <typename PartFor>
Outcome<AllPending> send_to_all(Conversation& talk, std::uint32_t step, const PartFor& part_for) {
    AllPending sends;
    sends.reserve(static_cast<std::size_t>(talk.size()) - 1);
    for (int next = 1; next < talk.size(); ++next) {
        const int to = wrapped(talk.rank() + next, talk.size());
        sends.push_back(TRY(talk.send(to, step, part_for(to))));
    }
    return sends;
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

    // Each rank sends to the one after it first, so the values of the one before come first.
    const auto before = [&](int k) { return wrapped(talk.rank() - k, talk.size()); };
    const auto after = [&](int k) { return wrapped(talk.rank() + k, talk.size()); };
    AllPending receives;
    AllPending results;
    const auto receive_result_of = [&](int rank) -> Done {
        const Bytes place(recv + blocks[rank].offset * value_bytes,
                          blocks[rank].length * value_bytes);
        results.push_back(TRY(talk.receive(rank, direct_gather_step, place)));
        return {};
    };
    for (int k = 1; k < talk.size(); ++k)
        receives.push_back(
            TRY(talk.receive(before(k), direct_scatter_step, arrived_from(before(k)))));
    const bool in_place = send == recv;
    for (int k = 1; !in_place && k < talk.size(); ++k)
        TRY(receive_result_of(after(k)));
    AllPending sends = TRY(send_to_all(talk, direct_scatter_step, [&](int to) {
        return ConstBytes(send + blocks[to].offset * value_bytes, blocks[to].length * value_bytes);
    }));

    reducer.load(sums, send + own.offset * value_bytes, own.length);
    for (int k = 1; k < talk.size(); ++k) {
        const auto at = static_cast<std::size_t>(k - 1);
        TRY(talk.wait(receives[at]));
        reducer.add(sums, arrived_from(before(k)).data(), own.length);
        TRY(talk.wait(sends[at]));
        if (in_place) TRY(receive_result_of(after(k)));
    }
    const Bytes result(recv + own.offset * value_bytes, own_bytes);
    reducer.store(result.data(), sums, own.length, talk.size());
    sends = TRY(send_to_all(talk, direct_gather_step, [&](int) { return ConstBytes(result); }));
    TRY(talk.wait_all(results));
    return talk.wait_all(sends);
}

}  // namespace mpi_bridge
