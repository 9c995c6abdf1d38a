// SPDX-License-Identifier: Apache-2.0
//
// Alltoall among the ranks of a node. It also serves as a gather or a scatter, where all other
// parts are empty.
//
// In each round every rank copies a piece from each staging buffer and puts the next pieces, one
// for each rank, in its own staging buffer. The entries tell the longest part of each rank, which
// determines the number of rounds. Every piece starts with the length of the whole part that it
// belongs to, in a cache line of its own: copies to and from unaligned places take several times as
// long. Between two ranks, the entry itself holds a short part.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include <fmt/core.h>

#include "shm/node_stage.hpp"

namespace mpi_bridge {
namespace {

// What an entry tells of what its rank sends to others.
struct Told {
    std::uint64_t longest = 0;  // bytes of a part
    std::byte part[shm::inline_bytes - sizeof longest];

    // Whether a part is here, and not in a piece: the only one that its rank sends to another.
    [[nodiscard]] static bool holds(int ranks, std::size_t bytes) {
        return ranks == 2 && bytes <= sizeof part;
    }
};

}  // namespace

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
            if (Told::holds(size(), part.size())) continue;
            std::byte* const piece =
                meeting_.layout().piece_in_turn(rank(), peer, meeting_.steps());
            length = part.size();
            std::memcpy(piece, &length, sizeof length);
            if (part.empty()) continue;
            std::memcpy(piece + header, part.data() + offset, std::min(room, part.size() - offset));
        }
    };
    put(0);

    Told told;
    std::size_t told_bytes = sizeof told.longest;
    for (int peer = 0; peer < size(); ++peer) {
        const auto part = out[static_cast<std::size_t>(peer)];
        if (peer == rank()) continue;
        told.longest = std::max<std::uint64_t>(told.longest, part.size());
        if (!Told::holds(size(), part.size()) || part.empty()) continue;
        std::memcpy(told.part, part.data(), part.size());
        told_bytes += part.size();
    }
    TRY(meeting_.meet(digest(turn, Kind::alltoall, 0),
                      std::as_bytes(std::span(&told, 1)).first(told_bytes)));
    meeting_.count_meeting();
    std::uint64_t longest = 0;
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
            const std::byte* const entry = meeting_.entry(peer).payload;
            std::memcpy(&length, entry, sizeof length);
            const bool is_told = Told::holds(size(), length);
            const std::byte* const piece = meeting_.layout().piece_in_turn(peer, rank(), step);
            if (!is_told) std::memcpy(&length, piece, sizeof length);
            if (length != part.size()) {
                return meeting_.break_off(
                    {MPIB_ERROR_MISMATCH,
                     fmt::format("{}: local rank {} sends {} bytes where {} are expected",
                                 meeting_.where(), peer, length, part.size())});
            }
            if (part.empty()) continue;
            const std::byte* const data = is_told ? entry + offsetof(Told, part) : piece + header;
            copy(part.data() + offset, data, std::min(room, part.size() - offset));
        }
        if (round + 1 == rounds) return {};
        put(round + 1);
        meeting_.advance();
        TRY(meeting_.await_all());
    }
}

}  // namespace mpi_bridge
