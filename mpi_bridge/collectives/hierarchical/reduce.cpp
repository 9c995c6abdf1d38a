// SPDX-License-Identifier: Apache-2.0
//
// By leaders: the node's vectors are reduced to one of its ranks. These ranks reduce their results
// to the one on the root's host, which passes the result to the root. If the root is on a rail,
// this rank is the root itself.
//
// By rails: each rank on a rail reduces one slice of the node's vectors, and then the same
// slice of all nodes to the root's host, where all these ranks pass their results to the root.
//
// In both variants, a node sends and receives as much as one rank in a reduce among the nodes.
#include <algorithm>
#include <vector>

#include "collectives/hierarchical/hierarchical.hpp"

namespace mpi_bridge {
namespace {

// The last step, on the root's host: the other rails pass their finished results to the root.
class Delivery {
  public:
    Delivery(const Hierarchy& all, int root)
        : all_(all),
          root_local_rank_(static_cast<std::size_t>(all.layout.local_rank_of(root))),
          out_(static_cast<std::size_t>(all.layout.local_size())),
          in_(out_.size()) {}

    // A rank with finished results calls give(); the root calls take() with the memory for that
    // rank's results.
    void give(Bytes finished) { out_[root_local_rank_] = finished; }
    void take(int local_rank, Bytes result) { in_[static_cast<std::size_t>(local_rank)] = result; }

    [[nodiscard]] Done run() const { return all_.stage.alltoall(all_.turn, out_, in_); }

  private:
    const Hierarchy& all_;
    std::size_t root_local_rank_;
    std::vector<ConstBytes> out_;
    std::vector<Bytes> in_;
};

}  // namespace

Done reduce_by_leaders(const Hierarchy& all, const Reduction& reduction, const std::byte* send,
                       std::byte* recv, std::size_t count, int root) {
    const Layout& layout = all.layout;
    const int root_local_rank = layout.local_rank_of(root);
    const int collector = layout.rail_of(root_local_rank);
    const bool collects = layout.own_local_rank == collector;
    const bool at_root = layout.own_host == layout.host_of(root);
    const std::size_t longest = all.share_bytes / reduction.accumulator_bytes;
    const std::size_t most = collects ? std::min(count, longest) : 0;
    const bool delivers = at_root && collector != root_local_rank;
    const auto [sums, finished] = take_areas(
        all.scratch,
        {most * reduction.accumulator_bytes, delivers ? most * reduction.element_bytes : 0});
    for (std::size_t at = 0; at == 0 || at < count; at += longest) {
        const std::size_t length = std::min(longest, count - at);
        const std::size_t bytes = length * reduction.element_bytes;
        TRY(all.stage.reduce(all.turn, reduction, send + at * reduction.element_bytes, sums.data(),
                             length, collector));
        if (collects && all.spans_hosts()) {
            const auto& algorithm = all.choose<Reduce>(length * reduction.accumulator_bytes);
            TRY(algorithm.run(all.across, accumulators_of(reduction), sums.data(), sums.data(),
                              length, layout.host_of(root)));
        }
        if (!at_root) continue;
        const bool is_root = layout.own_local_rank == root_local_rank;
        std::byte* result = is_root ? recv + at * reduction.element_bytes : finished.data();
        if (collects) reduction.store(result, sums.data(), length, all.ranks);
        if (!delivers) continue;
        Delivery delivery(all, root);
        if (collects) delivery.give(finished.first(bytes));
        if (is_root) delivery.take(collector, {result, bytes});
        TRY(delivery.run());
    }
    return {};
}

Done reduce_by_rails(const Hierarchy& all, const Reduction& reduction, const std::byte* send,
                     std::byte* recv, std::size_t count, int root) {
    const Layout& layout = all.layout;
    const bool at_root = layout.own_host == layout.host_of(root);
    const bool is_root = at_root && layout.own_local_rank == layout.local_rank_of(root);
    const std::size_t item = reduction.element_bytes;
    const std::size_t share = all.share_bytes / reduction.accumulator_bytes;
    const std::size_t longest = share * static_cast<std::size_t>(layout.rails);
    const std::size_t most = layout.on_rail() ? std::min(count, share) : 0;
    const auto [sums, finished] = take_areas(
        all.scratch, {most * reduction.accumulator_bytes, at_root && !is_root ? most * item : 0});
    std::vector<std::size_t> counts(static_cast<std::size_t>(layout.local_size()));

    for (std::size_t at = 0; at == 0 || at < count; at += longest) {
        const std::size_t length = std::min(longest, count - at);
        for (std::size_t local_rank = 0; local_rank < counts.size(); ++local_rank)
            counts[local_rank] = slice_of_rail(layout, length, static_cast<int>(local_rank)).length;
        TRY(reduce_to_rails(all, reduction, send + at * item, sums.data(), counts));
        const Slice own = slice_of_rail(layout, length, layout.own_local_rank);
        if (layout.on_rail()) {
            const auto& algorithm = all.choose<Reduce>(length * reduction.accumulator_bytes);
            TRY(algorithm.run(all.across, accumulators_of(reduction), sums.data(), sums.data(),
                              own.length, layout.host_of(root)));
        }
        if (!at_root) continue;
        Delivery delivery(all, root);
        std::byte* const result = is_root ? recv + at * item : nullptr;
        if (layout.on_rail()) {
            std::byte* const to = is_root ? result + own.offset * item : finished.data();
            reduction.store(to, sums.data(), own.length, all.ranks);
            if (!is_root) delivery.give({to, own.length * item});
        }
        for (int local_rank = 0; is_root && local_rank < layout.rails; ++local_rank) {
            if (local_rank == layout.own_local_rank) continue;
            const Slice slice = slice_of_rail(layout, length, local_rank);
            delivery.take(local_rank, {result + slice.offset * item, slice.length * item});
        }
        TRY(delivery.run());
    }
    return {};
}

}  // namespace mpi_bridge
