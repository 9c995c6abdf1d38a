// SPDX-License-Identifier: Apache-2.0
//
// Recursive doubling, for short vectors: each message carries the whole vector, but only
// ceil(log2 n) steps are needed (two more when n is not a power of two).
//
// Let p be the largest power of two <= n, and extra = n - p. First the ranks come down to p
// "players": of the lowest 2*extra ranks each odd one hands its vector to the even one below it and
// sits out (step 0). The players, renumbered 0 .. p-1, then exchange in step 1 + k with the player
// whose number differs in bit k, and both reduce the two vectors in the same order, the lower
// player's first. So all players compute the same tree of operations and get the same bits. At the
// end those that sat out are handed the result (last step).
//
// Vectors travel as accumulators (see reduce/reduction.hpp), so the result is rounded once.
#include <bit>
#include <cstring>

#include "collectives/collectives.hpp"

namespace mpi_bridge {
namespace {

// Who plays and under which number.
struct Players {
    int extra;
    int count;

    explicit Players(int ranks)
        : extra(ranks - static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))),
          count(ranks - extra) {}
    [[nodiscard]] bool is_paired(int rank) const { return rank < 2 * extra; }
    [[nodiscard]] bool sits_out(int rank) const { return is_paired(rank) && rank % 2 == 1; }
    [[nodiscard]] int number_of(int rank) const {
        return is_paired(rank) ? rank / 2 : rank - extra;
    }
    [[nodiscard]] int rank_of(int number) const {
        return number < extra ? number * 2 : number + extra;
    }
};

constexpr std::uint32_t hand_over_step = 0;
constexpr std::uint32_t first_exchange_step = 1;
constexpr std::uint32_t hand_back_step = 63;

Done send_and_wait(Conversation& talk, int to, std::uint32_t step, ConstBytes data) {
    auto pending = talk.send(to, step, data);
    if (!pending) return pass_on(std::move(pending));
    return talk.wait(*pending);
}

Done receive_and_wait(Conversation& talk, int from, std::uint32_t step, Bytes data) {
    auto pending = talk.receive(from, step, data);
    if (!pending) return pass_on(std::move(pending));
    return talk.wait(*pending);
}

}  // namespace

Done allreduce_recursive_doubling(Conversation& talk, const Reduction& reduction,
                                  const std::byte* send, std::byte* recv, std::size_t count) {
    if (count == 0) return {};
    if (talk.size() == 1) {
        std::memmove(recv, send, count * reduction.element_bytes);
        return {};
    }
    const Players players(talk.size());
    const int rank = talk.rank();
    const std::size_t bytes = count * reduction.accumulator_bytes;
    const Bytes memory = talk.scratch().take(2 * bytes);
    const Bytes mine = memory.first(bytes);
    const Bytes theirs = memory.subspan(bytes);
    reduction.load(mine.data(), send, count);

    if (players.sits_out(rank)) {
        if (auto done = send_and_wait(talk, rank - 1, hand_over_step, mine); !done) return done;
        auto done = receive_and_wait(talk, rank - 1, hand_back_step, mine);
        if (done) reduction.store(recv, mine.data(), count, talk.size());
        return done;
    }
    if (players.is_paired(rank)) {
        auto done = receive_and_wait(talk, rank + 1, hand_over_step, theirs);
        if (!done) return done;
        reduction.merge(mine.data(), mine.data(), theirs.data(), count);
    }
    const int number = players.number_of(rank);
    std::uint32_t step = first_exchange_step;
    for (int bit = 1; bit < players.count; bit *= 2) {
        const int other = players.rank_of(number ^ bit);
        if (auto done = talk.exchange(other, mine, other, theirs, step); !done) return done;
        if ((number & bit) == 0) {
            reduction.merge(mine.data(), mine.data(), theirs.data(), count);
        } else {
            reduction.merge(mine.data(), theirs.data(), mine.data(), count);
        }
        ++step;
    }
    if (players.is_paired(rank)) {
        auto done = send_and_wait(talk, rank + 1, hand_back_step, mine);
        if (!done) return done;
    }
    reduction.store(recv, mine.data(), count, talk.size());
    return {};
}

}  // namespace mpi_bridge
