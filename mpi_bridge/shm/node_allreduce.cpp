// SPDX-License-Identifier: Apache-2.0
//
// Allreduce among the ranks of a node.
//
// Flat: every rank shows its vector to the others, and every rank reduces all vectors.
//
// Direct: the vector is cut into one slice per rank. Rank r reduces slice r of all ranks' buffers
// in blocks that stay in its cache, and writes each block to all ranks' results; with two ranks it
// writes both results at once. A closing step keeps a rank from returning while others still access
// its buffers.
//
// Staged: slices are processed in rounds, one piece of each slice per round. In round i, which
// begins when every rank has done step i, rank r
//     copies the results of round i-1 from its staging buffer to recv;
//     reduces its own piece of round i from the parts that the others have put in their staging
//     buffers for it (its own part comes from `send`), and overwrites these parts with the result;
//     puts its part of all pieces of round i+1 in its staging buffer, for the ranks that reduce
//     them, and has then done step i+1.
// So a rank writes only to cache lines that it has read last. A line that other processors hold
// costs several times as much to write.
// There is one exchange of flags per round, because putting the pieces for the next round needs
// none of its own.
//
// In place: a round writes to recv only where all ranks have already put their parts in their
// staging buffers. The exception is the rank's own piece: only this rank reads it from send, and it
// does so before it writes the result.
#include <algorithm>
#include <cstring>

#include "shm/node_stage.hpp"
#include "shm/stage_cut.hpp"

namespace mpi_bridge {

namespace {

// Long enough that the cost of the calls does not matter, and short enough that a block of results
// is still in the first-level cache when it is copied.
constexpr std::size_t block_bytes = 8UL << 10;

}  // namespace

Done NodeStage::allreduce(const Turn& turn, const Reduction& reduction, const std::byte* send,
                          std::byte* recv, std::size_t count) {
    TRY(begin(turn));
    const std::size_t item = reduction.element_bytes;
    const std::size_t bytes = count * item;
    const auto agreement = digest(turn, Kind::allreduce, bytes, item);
    const auto own = locate(send, bytes, recv, bytes);
    bool direct = false;
    if (is_flat(bytes)) {
        TRY(show(agreement, {send, bytes}, bytes, own, direct));
        if (!direct) {
            find_block(0);
            reduction.combine(recv, block_.data(), block_.size(), count, size());
            return {};
        }
    } else {
        const shm::StageCut cut(count, size(), shm::cache_line / item,
                                meeting_.layout().measures().piece_bytes / item);
        auto met = meet(
            agreement, own, [&] { put_pieces(cut, 0, send, item, answered); }, direct);
        if (!met) return met;
        if (!direct) return allreduce_staged(reduction, cut, send, recv);
    }
    return allreduce_direct(reduction, count);
}

Done NodeStage::allreduce_direct(const Reduction& reduction, std::size_t count) {
    const std::size_t item = reduction.element_bytes;
    const Slice slice =
        shm::StageCut(count, size(), shm::cache_line / item, count).slice_of(rank());
    const std::size_t block = block_bytes / item;
    const auto target_of = [&](int peer) {
        return heaps_[static_cast<std::size_t>(peer)].at(location(peer).target);
    };
    if (size() == 2) {
        const std::size_t offset = slice.offset * item;
        find_block(offset);
        void* const targets[] = {target_of(0) + offset, target_of(1) + offset};
        reduction.combine_pair(targets, block_.data(), slice.length, size());
    } else {
        std::byte* const own = target_of(rank());
        for (std::size_t done = 0; done < slice.length; done += block) {
            const std::size_t offset = (slice.offset + done) * item;
            const std::size_t length = std::min(block, slice.length - done);
            find_block(offset);
            reduction.combine(own + offset, block_.data(), block_.size(), length, size());
            for (int peer = 0; peer < size(); ++peer) {
                if (peer == rank()) continue;
                std::memcpy(target_of(peer) + offset, own + offset, length * item);
            }
        }
    }
    meeting_.advance();
    return meeting_.await_all();
}

Done NodeStage::allreduce_staged(const Reduction& reduction, const shm::StageCut& cut,
                                 const std::byte* send, std::byte* recv) {
    const shm::Layout& layout = meeting_.layout();
    const std::size_t item = reduction.element_bytes;
    const std::size_t block = block_bytes / item;
    const auto take_results = [&](std::size_t round, std::uint32_t step) {
        for (int peer = 0; peer < size(); ++peer) {
            const Slice piece = cut.piece(peer, round);
            if (peer == rank() || piece.length == 0) continue;
            std::memcpy(recv + piece.offset * item, layout.piece(rank(), peer, step),
                        piece.length * item);
        }
    };
    for (std::size_t round = 0; round < cut.rounds(); ++round) {
        const std::uint32_t step = meeting_.steps() - 1;  // of the round's pieces
        if (round != 0) take_results(round - 1, step - 1);
        const Slice piece = find_pieces(cut, round, step, send, item, answered);
        for (std::size_t done = 0; done < piece.length; done += block) {
            const std::size_t length = std::min(block, piece.length - done);
            std::byte* const reduced = recv + (piece.offset + done) * item;
            reduction.combine(reduced, block_.data(), block_.size(), length, size());
            for (int peer = 0; peer < size(); ++peer) {
                if (peer == rank()) continue;
                std::memcpy(layout.piece(peer, rank(), step) + done * item, reduced, length * item);
            }
            move_block(length * item);
        }
        if (round + 1 != cut.rounds()) put_pieces(cut, round + 1, send, item, answered);
        meeting_.advance();
        TRY(meeting_.await_all());
    }
    take_results(cut.rounds() - 1, meeting_.steps() - 2);
    // Other ranks may still be taking their results from where the next call would put its pieces.
    meeting_.skip_step();
    return {};
}

}  // namespace mpi_bridge
