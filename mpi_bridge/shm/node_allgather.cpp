// SPDX-License-Identifier: Apache-2.0
//
// Allgather among the ranks of a node, and the barrier.
//
// Short parts are exchanged in entries or flat areas. Parts that are all in shared heaps are copied
// from there. All other parts go through the staging buffers in pieces: in each round every rank
// copies one piece from each staging buffer and puts the next piece of its own part in its own
// staging buffer. A few ranks put a copy for each rank, because a cache line costs less to write if
// only one other rank has read it.
#include <algorithm>

#include "shm/node_stage.hpp"

namespace mpi_bridge {

Done NodeStage::allgather(const Turn& turn, std::span<const std::span<std::byte>> parts) {
    TRY(begin(turn));
    const std::span<std::byte> mine = parts[static_cast<std::size_t>(rank())];
    std::size_t longest = 0;
    std::size_t total = 0;
    std::uint64_t agreement = digest(turn, Kind::allgather, parts.size());
    for (const auto part : parts) {
        total += part.size();
        longest = std::max(longest, part.size());
        agreement = digest({{}, agreement, {}}, Kind::allgather, part.size());
    }
    shm::Copy* const copy = shm::copy_for(total);
    const auto take_all = [&](auto source, std::size_t offset, std::size_t most) {
        for (int peer = 0; peer < size(); ++peer) {
            const auto part = parts[static_cast<std::size_t>(peer)];
            if (peer == rank() || part.size() <= offset) continue;
            copy(part.data() + offset, source(peer), std::min(most, part.size() - offset));
        }
    };
    const auto shown = [&](int peer) { return shown_[static_cast<std::size_t>(peer)]; };
    bool direct = false;
    if (is_flat(longest)) {
        auto done = show(agreement, mine, longest, {}, direct);
        if (done) take_all(shown, 0, longest);
        return done;
    }
    const std::size_t most = longest_put();
    const auto put = [&](std::size_t round) {
        const std::size_t offset = std::min(mine.size(), round * most);
        put_for_all(mine.subspan(offset, std::min(most, mine.size() - offset)), one_way);
    };
    const auto own = locate(mine.data(), mine.size(), mine.data(), mine.size());
    if (auto met = meet(
            agreement, own, [&] { put(0); }, direct);
        !met)
        return met;
    if (direct) {
        take_all(shown, 0, longest);
        meeting_.advance();
        return meeting_.await_all();
    }
    const std::size_t rounds = (longest + most - 1) / most;
    for (std::size_t round = 0; round < rounds; ++round) {
        const std::uint32_t step = meeting_.steps() - 1;  // of the round's pieces
        for (int peer = 0; peer < size(); ++peer) {
            const auto part = parts[static_cast<std::size_t>(peer)];
            const std::size_t offset = std::min(part.size(), round * most);
            if (peer != rank())
                take_from(peer, step, part.subspan(offset, std::min(most, part.size() - offset)),
                          one_way, copy);
        }
        if (round + 1 == rounds) break;
        put(round + 1);
        meeting_.advance();
        TRY(meeting_.await_all());
    }
    return {};
}

Done NodeStage::barrier(const Turn& turn) {
    TRY(begin(turn));
    return meeting_.meet(digest(turn, Kind::barrier, 0), {});
}

}  // namespace mpi_bridge
