// SPDX-License-Identifier: Apache-2.0
//
// By leaders: the node's vectors are reduced to its leader, the leaders reduce their results, and
// each shows its node the final result.
//
// By rails: each rank on a rail reduces one slice of the node's vectors, combines it with
// the same slice of the other nodes, and shows its node the result.
//
// In both variants, a node sends and receives as much as one rank whose vector is the node's sum.
#include <algorithm>
#include <vector>

#include "collectives/chunks.hpp"
#include "collectives/hierarchical/hierarchical.hpp"

namespace mpi_bridge {
namespace {

// An allreduce of long vectors in two halves, for reductions whose accumulators are longer than
// their results: a reduce-scatter of the sums, and, once they are finished, an allgather of the
// results. A single allreduce would pass around the longer sums in its second half.
class InHalves {
  public:
    InHalves(const Hierarchy& all, const Reduction& reduction,
             const Algorithm<Allreduce>& algorithm)
        : all_(all), reduction_(reduction), algorithm_(algorithm) {}

    // `own` has room for the sums of the longest chunk.
    [[nodiscard]] Done run(const std::byte* sums, std::byte* own, std::byte* results,
                           std::size_t count) const {
        std::vector<std::size_t> counts;
        std::vector<Bytes> parts;
        const std::size_t item = reduction_.element_bytes;
        const int hosts = all_.layout.host_count();
        for (int each = 0; each < hosts; ++each) {
            const Slice chunk = even_slice(count, hosts, each);
            counts.push_back(chunk.length);
            parts.emplace_back(results + chunk.offset * item, chunk.length * item);
        }
        TRY(algorithm_.reduce_scatter(all_.across, accumulators_of(reduction_), sums, own, counts));
        const auto host = static_cast<std::size_t>(all_.layout.own_host);
        reduction_.store(parts[host].data(), own, counts[host], all_.ranks);
        return algorithm_.allgather(all_.across, parts);
    }

  private:
    const Hierarchy& all_;
    const Reduction& reduction_;
    const Algorithm<Allreduce>& algorithm_;
};

// A rank's sums, and the memory to reduce them with those of the other nodes.
struct Sums {
    Sums(const Hierarchy& all, const Reduction& reduction, std::size_t most)
        : areas(take_areas(all.scratch, {most * reduction.accumulator_bytes,
                                         Chunks::even(most, all.layout.host_count()).longest() *
                                             reduction.accumulator_bytes})) {}
    [[nodiscard]] std::byte* data() const { return areas[0].data(); }
    [[nodiscard]] std::byte* chunk() const { return areas[1].data(); }

    std::array<Bytes, 2> areas;
};

// Computes results = the finished sums of all nodes. The algorithm is chosen for `chosen_for`
// elements, the length of the sums of all rails together.
Done reduce_across(const Hierarchy& all, const Reduction& reduction, const Sums& sums,
                   std::byte* results, std::size_t count, std::size_t chosen_for) {
    const auto& algorithm = all.choose<Allreduce>(chosen_for * reduction.accumulator_bytes);
    const bool has_halves = algorithm.reduce_scatter != nullptr && algorithm.allgather != nullptr;
    if (has_halves && reduction.element_bytes < reduction.accumulator_bytes) {
        return InHalves(all, reduction, algorithm).run(sums.data(), sums.chunk(), results, count);
    }
    TRY(algorithm.run(all.across, accumulators_of(reduction), sums.data(), sums.data(), count));
    reduction.store(results, sums.data(), count, all.ranks);
    return {};
}

}  // namespace

Done allreduce_by_leaders(const Hierarchy& all, const Reduction& reduction, const std::byte* send,
                          std::byte* recv, std::size_t count) {
    constexpr int leader = 0;
    const std::size_t longest = all.share_bytes / reduction.accumulator_bytes;
    const Sums sums(all, reduction, all.layout.leads() ? std::min(count, longest) : 0);
    for (std::size_t at = 0; at == 0 || at < count; at += longest) {
        const std::size_t length = std::min(longest, count - at);
        const std::byte* from = send + at * reduction.element_bytes;
        std::byte* to = recv + at * reduction.element_bytes;
        TRY(all.stage.reduce(all.turn, reduction, from, sums.data(), length, leader));
        if (all.layout.leads()) TRY(reduce_across(all, reduction, sums, to, length, length));
        TRY(all.stage.broadcast(all.turn, Bytes(to, length * reduction.element_bytes), leader));
    }
    return {};
}

Done allreduce_by_rails(const Hierarchy& all, const Reduction& reduction, const std::byte* send,
                        std::byte* recv, std::size_t count) {
    const auto local_size = static_cast<std::size_t>(all.layout.local_size());
    const std::size_t share = all.share_bytes / reduction.accumulator_bytes;
    const std::size_t longest = share * static_cast<std::size_t>(all.layout.rails);
    const Sums sums(all, reduction, all.layout.on_rail() ? std::min(count, share) : 0);
    std::vector<Bytes> parts(local_size);
    std::vector<std::size_t> counts(local_size);

    for (std::size_t at = 0; at == 0 || at < count; at += longest) {
        const std::size_t length = std::min(longest, count - at);
        const std::byte* from = send + at * reduction.element_bytes;
        std::byte* to = recv + at * reduction.element_bytes;
        for (std::size_t local_rank = 0; local_rank < local_size; ++local_rank) {
            const Slice slice = slice_of_rail(all.layout, length, static_cast<int>(local_rank));
            parts[local_rank] = {to + slice.offset * reduction.element_bytes,
                                 slice.length * reduction.element_bytes};
            counts[local_rank] = slice.length;
        }
        TRY(reduce_to_rails(all, reduction, from, sums.data(), counts));
        const Slice own = slice_of_rail(all.layout, length, all.layout.own_local_rank);
        if (all.layout.on_rail()) {
            TRY(reduce_across(all, reduction, sums, to + own.offset * reduction.element_bytes,
                              own.length, length));
        }
        TRY(all.stage.allgather(all.turn, parts));
    }
    return {};
}

}  // namespace mpi_bridge
