// SPDX-License-Identifier: Apache-2.0
//
// Broadcast among the ranks of a node.
//
// Short data is in the root's entry or flat area. Long data that is in the root's shared heap is
// copied from there by all ranks. Any other data goes through the root's staging buffer in pieces,
// of which two are under way: while the others copy one, the root puts the next. The root is ahead
// of the others by one piece at most, because it puts piece i when all ranks have done step i, and
// so have copied piece i-2. The others wait only for the root.
#include <algorithm>
#include <cstring>

#include "shm/node_stage.hpp"
#include "shm/take_over.hpp"

namespace mpi_bridge {

Done NodeStage::broadcast(const Turn& turn, std::span<std::byte> data, int root) {
    TRY(begin(turn));
    const bool gives = rank() == root;
    const auto agreement =
        digest(turn, Kind::broadcast, data.size(), static_cast<std::uint64_t>(root));
    if (data.size() <= shm::inline_bytes) {
        auto met = meeting_.meet(agreement, gives ? data : std::span<std::byte>());
        if (!met || gives || data.empty()) return met;
        std::memcpy(data.data(), meeting_.entry(root).payload, data.size());
        return {};
    }
    if (is_flat(data.size())) {
        if (gives) std::memcpy(meeting_.flat_area(root), data.data(), data.size());
        auto met = meeting_.meet(agreement, {});
        if (!met || gives) return met;
        if (size() == 2)
            shm::copy_and_take_over(data.data(), meeting_.flat_area(root), data.size(),
                                    shm::copy_for(data.size()));
        else
            std::memcpy(data.data(), meeting_.flat_area(root), data.size());
        return {};
    }
    shm::Location own;
    if (gives) own = locate(data.data(), data.size(), data.data(), data.size());
    shm::Copy* const copy = shm::copy_for(data.size());
    const std::size_t most = longest_put();
    const auto piece = [&](std::size_t round) {
        const std::size_t offset = std::min(data.size(), round * most);
        return data.subspan(offset, std::min(most, data.size() - offset));
    };
    const auto put = [&](std::size_t round) { put_for_all(piece(round), answered); };
    const auto take = [&](std::size_t round, std::uint32_t step) {
        take_from(root, step, piece(round), answered, copy);
    };
    if (gives && !own.all_shared()) put(0);
    TRY(meeting_.meet(agreement, std::as_bytes(std::span(&own, 1))));

    const auto where = location(root);
    if (where.all_shared()) {
        if (!gives) {
            copy(data.data(), heaps_[static_cast<std::size_t>(root)].at(where.source), data.size());
        }
        meeting_.advance();
        if (gives) return meeting_.await_all();
        meeting_.wake();
        return {};
    }
    meeting_.count_meeting();
    const std::size_t rounds = (data.size() + most - 1) / most;
    for (std::size_t round = 0; round < rounds; ++round) {
        const bool last = round + 1 == rounds;
        if (!gives) {
            take(round, meeting_.steps() - 1);
        } else if (!last) {
            TRY(meeting_.await_all());
            put(round + 1);
        }
        if (last) break;
        meeting_.advance();
        if (gives) continue;
        TRY(meeting_.await_rank(root));
    }
    meeting_.wake();
    return {};
}

}  // namespace mpi_bridge
