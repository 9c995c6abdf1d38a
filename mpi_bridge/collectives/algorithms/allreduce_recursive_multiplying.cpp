// SPDX-License-Identifier: Apache-2.0
//
// Recursive multiplying, for short vectors: each message carries the whole vector, but only few
// steps are needed, about log n to the base `radix`, with radix-1 messages each. With radix 2 this
// is recursive doubling.
//
// The number of "players" is m * radix^j, with the largest possible j and then the largest m <
// radix, so more than half of all ranks are players. With `extra` ranks too many, each odd one of
// the lowest 2*extra ranks first sends its vector to the even one below it and sits out (step 0).
// The players, numbered 0 .. p-1, then exchange vectors in groups whose members' numbers differ in
// one digit only: j times in groups of `radix`, which differ in a digit to the base of the radix,
// beginning with the lowest digit, and once in groups of m. The members of a group exchange all
// their vectors, and every member reduces them in the order of the numbers. So all players compute
// the same tree of operations and get the same bits. At the end the ranks that sat out receive the
// result.
//
// Vectors travel as accumulators (see reduce/reduction.hpp), so the result is rounded once.
#include <utility>
#include <vector>

#include "collectives/algorithms/collectives.hpp"

namespace mpi_bridge {
namespace {

// Which ranks are players, and under which numbers.
struct Players {
    int count;
    int extra;

    Players(int ranks, int radix) {
        long power = 1;
        while (power * radix <= ranks)
            power *= radix;
        count = static_cast<int>(ranks / power * power);
        extra = ranks - count;
    }
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
    auto pending = TRY(talk.send(to, step, data));
    return talk.wait(pending);
}

Done receive_and_wait(Conversation& talk, int from, std::uint32_t step, Bytes data) {
    auto pending = TRY(talk.receive(from, step, data));
    return talk.wait(pending);
}

// Players whose numbers differ only by multiples of `stride`.
struct PlayerGroup {
    int first = 0;
    int stride = 1;
    int members = 1;
    int own_place = 0;
};

// Exchanges the vectors of a group and reduces them. vectors[0] holds this rank's vector and then
// the result; the others are memory to receive into.
Done meet(Conversation& talk, const Reducer& reducer, const Players& players,
          const PlayerGroup& group, std::uint32_t step, std::vector<Bytes>& vectors) {
    const auto members = static_cast<std::size_t>(group.members);
    const auto own = static_cast<std::size_t>(group.own_place);
    const auto rank_at = [&](std::size_t place) {
        return players.rank_of(group.first + static_cast<int>(place) * group.stride);
    };
    std::swap(vectors[0], vectors[own]);  // now in the order of the members
    std::vector<Conversation::Pending> pending;
    // Each member starts with the one after itself, so that not all send to the same one at once.
    for (std::size_t next = 1; next < members; ++next) {
        const std::size_t place = (own + members - next) % members;
        pending.push_back(TRY(talk.receive(rank_at(place), step, vectors[place])));
    }
    for (std::size_t next = 1; next < members; ++next) {
        pending.push_back(TRY(talk.send(rank_at((own + next) % members), step, vectors[own])));
    }
    TRY(talk.wait_all(pending));
    std::byte* result = vectors[0].data();
    const std::size_t count = vectors[0].size() / reducer.accumulator_bytes();
    for (std::size_t place = 1; place < members; ++place)
        reducer.merge(result, result, vectors[place].data(), count);
    return {};
}

Done play(Conversation& talk, const Reducer& reducer, const Players& players, int radix,
          std::vector<Bytes>& vectors) {
    const int number = players.number_of(talk.rank());
    std::uint32_t step = first_exchange_step;
    long stride = 1;
    while (stride < players.count) {
        const long left = players.count / stride;
        PlayerGroup group;
        group.stride = static_cast<int>(stride);
        group.members = left < radix ? static_cast<int>(left) : radix;
        group.own_place = number / group.stride % group.members;
        group.first = number - group.own_place * group.stride;
        TRY(meet(talk, reducer, players, group, step++, vectors));
        stride *= group.members;
    }
    return {};
}

}  // namespace

Done allreduce_recursive_multiplying(Conversation& talk, const Reducer& reducer,
                                     const std::byte* send, std::byte* recv, std::size_t count,
                                     int radix) {
    if (reduced_alone(talk, reducer, send, recv, count)) return {};
    const Players players(talk.size(), radix);
    const int rank = talk.rank();
    const std::size_t bytes = count * reducer.accumulator_bytes();
    const std::size_t most = static_cast<std::size_t>(std::min(radix, talk.size()));
    const Bytes memory = talk.scratch().take(most * bytes);
    std::vector<Bytes> vectors;
    for (std::size_t index = 0; index < most; ++index)
        vectors.push_back(memory.subspan(index * bytes, bytes));
    reducer.load(vectors[0].data(), send, count);

    if (players.sits_out(rank)) {
        auto done = send_and_wait(talk, rank - 1, hand_over_step, vectors[0]);
        if (done) done = receive_and_wait(talk, rank - 1, hand_back_step, vectors[0]);
        if (done) reducer.store(recv, vectors[0].data(), count, talk.size());
        return done;
    }
    if (players.is_paired(rank)) {
        TRY(receive_and_wait(talk, rank + 1, hand_over_step, vectors[1]));
        reducer.merge(vectors[0].data(), vectors[0].data(), vectors[1].data(), count);
    }
    TRY(play(talk, reducer, players, radix, vectors));
    if (players.is_paired(rank)) TRY(send_and_wait(talk, rank + 1, hand_back_step, vectors[0]));
    reducer.store(recv, vectors[0].data(), count, talk.size());
    return {};
}

Done allreduce_recursive_doubling(Conversation& talk, const Reducer& reducer, const std::byte* send,
                                  std::byte* recv, std::size_t count) {
    return allreduce_recursive_multiplying(talk, reducer, send, recv, count, 2);
}

Done allreduce_recursive_quadrupling(Conversation& talk, const Reducer& reducer,
                                     const std::byte* send, std::byte* recv, std::size_t count) {
    return allreduce_recursive_multiplying(talk, reducer, send, recv, count, 4);
}

}  // namespace mpi_bridge
