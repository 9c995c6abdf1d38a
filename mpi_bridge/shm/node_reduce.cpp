// SPDX-License-Identifier: Apache-2.0
//
// Reductions among the ranks of a node whose results are partial: accumulators that will be reduced
// with those of other nodes.
//
// reduce_scatter: as in allreduce, rank r reduces slice r, in rounds. Results are not exchanged, so
// a round needs only the pieces of all ranks.
//
// reduce: all ranks reduce one slice each, as in allreduce, and the root copies the results.
#include <algorithm>
#include <cstring>

#include "shm/node_stage.hpp"
#include "shm/stage_cut.hpp"
#include "shm/take_over.hpp"

namespace mpi_bridge {

Done NodeStage::reduce_scatter(const Turn& turn, const Reduction& reduction, const std::byte* send,
                               std::byte* accumulators, std::span<const std::size_t> counts) {
    TRY(begin(turn));
    const std::size_t item = reduction.element_bytes;
    std::uint64_t agreement = digest(turn, Kind::reduce_scatter, counts.size(), item);
    for (std::size_t peer = 0; peer < counts.size(); ++peer) {
        starts_[peer + 1] = starts_[peer] + counts[peer];
        agreement = digest({{}, agreement, {}}, Kind::reduce_scatter, counts[peer]);
    }
    const shm::StageCut cut(starts_, meeting_.layout().measures().piece_bytes / item);
    const Slice slice = cut.slice_of(rank());
    const std::size_t bytes = starts_.back() * item;
    const auto own = locate(send, bytes, send, bytes);
    bool direct = false;
    if (is_flat(bytes)) {
        TRY(show(agreement, {send, bytes}, bytes, own, direct));
        if (!direct) {
            find_block(slice.offset * item);
            reduction.combine_partial(accumulators, block_.data(), block_.size(), slice.length);
            return {};
        }
    }
    if (!is_flat(bytes)) {
        auto met = meet(
            agreement, own, [&] { put_pieces(cut, 0, send, item, one_way); }, direct);
        if (!met) return met;
    }
    if (direct) {
        find_block(slice.offset * item);
        reduction.combine_partial(accumulators, block_.data(), block_.size(), slice.length);
        meeting_.advance();
        return meeting_.await_all();
    }
    for (std::size_t round = 0;; ++round) {
        const Slice piece = find_pieces(cut, round, meeting_.steps() - 1, send, item, one_way);
        reduction.combine_partial(
            accumulators + (piece.offset - slice.offset) * reduction.accumulator_bytes,
            block_.data(), block_.size(), piece.length);
        if (round + 1 == cut.rounds()) return {};
        put_pieces(cut, round + 1, send, item, one_way);
        meeting_.advance();
        TRY(meeting_.await_all());
    }
}

Done NodeStage::reduce(const Turn& turn, const Reduction& reduction, const std::byte* send,
                       std::byte* accumulators, std::size_t count, int root) {
    TRY(begin(turn));
    const std::size_t item = reduction.element_bytes;
    const std::size_t bytes = count * item;
    const auto detail = item << 16 | static_cast<std::uint64_t>(root);
    const auto agreement = digest(turn, Kind::reduce, bytes, detail);
    bool direct = false;
    if (is_flat(bytes)) {
        auto shown = show(agreement, {send, bytes}, bytes, {}, direct);
        if (!shown || rank() != root) return shown;
        find_block(0);
        reduction.combine_partial(accumulators, block_.data(), block_.size(), count);
        return {};
    }
    // A piece of results consists of accumulators, which may be wider than elements.
    const std::size_t unit = 64;
    const std::size_t widest = std::max(item, reduction.accumulator_bytes);
    const shm::StageCut cut(
        count, size(), unit,
        std::max(unit, meeting_.layout().measures().piece_bytes / widest / unit * unit));
    auto met = meet(
        agreement, {}, [&] { put_pieces(cut, 0, send, item, one_way); }, direct);
    if (!met) return met;
    return reduce_staged(reduction, cut, send, accumulators, root);
}

Done NodeStage::reduce_staged(const Reduction& reduction, const shm::StageCut& cut,
                              const std::byte* send, std::byte* accumulators, int root) {
    const shm::Layout& layout = meeting_.layout();
    const auto take_results = [&](std::size_t round, std::uint32_t step) {
        if (rank() != root) return;
        const std::size_t item = reduction.accumulator_bytes;
        for (int peer = 0; peer < size(); ++peer) {
            const Slice piece = cut.piece(peer, round);
            if (piece.length == 0) continue;
            shm::copy_and_take_over(accumulators + piece.offset * item,
                                    layout.piece(peer, peer, step), piece.length * item);
        }
    };
    for (std::size_t round = 0; round < cut.rounds(); ++round) {
        const std::uint32_t step = meeting_.steps() - 1;  // of the round's pieces
        if (round != 0) take_results(round - 1, step - 1);
        const Slice piece = find_pieces(cut, round, step, send, reduction.element_bytes, one_way);
        reduction.combine_partial(layout.piece(rank(), rank(), step), block_.data(), block_.size(),
                                  piece.length);
        if (round + 1 != cut.rounds()) {
            put_pieces(cut, round + 1, send, reduction.element_bytes, one_way);
        }
        meeting_.advance();
        TRY(meeting_.await_all());
    }
    take_results(cut.rounds() - 1, meeting_.steps() - 2);
    // The root may still be taking results from where the next call would put its data.
    meeting_.skip_step();
    return {};
}

}  // namespace mpi_bridge
