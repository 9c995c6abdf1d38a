// SPDX-License-Identifier: Apache-2.0
//
// Alltoall among the ranks of a node. It also serves as a gather or a scatter, where all other
// parts are empty.
//
// In each round every rank copies a piece from each staging buffer and puts the next pieces, one
// for each rank, in its own staging buffer. The entries tell the longest part of each rank, which
// determines the number of rounds. Every piece starts with the length of the whole part that it
// belongs to, in a cache line of its own: copies to and from unaligned places take several times as
// long.
#include <algorithm>
#include <cstring>

#include <fmt/core.h>

#include "shm/node_stage.hpp"

namespace mpi_bridge {

Done NodeStage::alltoall(const Turn& turn, std::span<const std::span<const std::byte>> out,
                         std::span<const std::span<std::byte>> in) {
    TRY(begin(turn));
    std::uint64_t length = 0;  // of one part
    constexpr std::size_t header = 64;
    const std::size_t room = meeting_.layout().measures().piece_bytes - header;
    const auto put = [&](std::size_t round) {
        for (int peer = 0; peer < size(); ++peer) {
            const auto part = out[static_cast<std::size_t>(peer)];
            const std::size_t offset = std::min(part.size(), round * room);
            if (peer == rank() || (round != 0 && offset == part.size())) continue;
            std::byte* const piece =
                meeting_.layout().piece_in_turn(rank(), peer, meeting_.steps());
            length = part.size();
            std::memcpy(piece, &length, sizeof length);
            if (part.empty()) continue;
            std::memcpy(piece + header, part.data() + offset, std::min(room, part.size() - offset));
        }
    };
    put(0);

    std::uint64_t longest = 0;
    for (const auto part : out)
        longest = std::max<std::uint64_t>(longest, part.size());
    TRY(meeting_.meet(digest(turn, Kind::alltoall, 0), std::as_bytes(std::span(&longest, 1))));
    meeting_.count_meeting();
    for (int peer = 0; peer < size(); ++peer) {
        std::memcpy(&length, meeting_.entry(peer).payload, sizeof length);
        longest = std::max(longest, length);
    }
    const auto own = static_cast<std::size_t>(rank());
    if (!in[own].empty()) std::memcpy(in[own].data(), out[own].data(), in[own].size());

    std::size_t total = 0;
    for (const auto part : in)
        total += part.size();
    shm::Copy* const copy = shm::copy_for(total);
    const std::size_t rounds = std::max<std::size_t>(1, (longest + room - 1) / room);
    for (std::size_t round = 0;; ++round) {
        const std::uint32_t step = meeting_.steps() - 1;  // of the round's pieces
        for (int peer = 0; peer < size(); ++peer) {
            const auto part = in[static_cast<std::size_t>(peer)];
            const std::size_t offset = round * room;
            if (peer == rank() || (round != 0 && offset >= part.size())) continue;
            const std::byte* const piece = meeting_.layout().piece_in_turn(peer, rank(), step);
            std::memcpy(&length, piece, sizeof length);
            if (length != part.size()) {
                return meeting_.break_off(
                    {MPIB_ERROR_MISMATCH,
                     fmt::format("{}: local rank {} sends {} bytes where {} are expected",
                                 meeting_.where(), peer, length, part.size())});
            }
            if (part.empty()) continue;
            copy(part.data() + offset, piece + header, std::min(room, part.size() - offset));
        }
        if (round + 1 == rounds) return {};
        put(round + 1);
        meeting_.advance();
        TRY(meeting_.await_all());
    }
}

}  // namespace mpi_bridge
