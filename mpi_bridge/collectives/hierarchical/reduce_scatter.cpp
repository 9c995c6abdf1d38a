// SPDX-License-Identifier: Apache-2.0
//
// Each rank on a rail handles the parts of the members that its rail serves, on all nodes: those on
// the rail, and those beyond the rails.
//
//   1. A node's ranks reduce their vectors, so that each rank on a rail has the node's sums of the
//      parts that it handles.
//   2. The ranks on a rail reduce-scatter these sums. Each then has the results of its own node's
//      members.
//   3. On nodes with more ranks than rails, results of members beyond the rails are passed to
//      them.
//
// A node sends its sums for the other nodes' parts once, and for each other node it receives as
// much as the sums of its own parts. Long vectors are processed in rounds, each with a slice of
// every part, which is arranged in the order of rails before it is reduced.
#include <algorithm>
#include <cstring>
#include <vector>

#include "collectives/chunks.hpp"
#include "collectives/hierarchical/hierarchical.hpp"

namespace mpi_bridge {
namespace {

class ReduceScatterBySeats {
  public:
    ReduceScatterBySeats(const Hierarchy& all, const Reduction& reduction, const std::byte* send,
                         std::byte* recv, std::span<const std::size_t> counts)
        : all_(all),
          layout_(all.layout),
          reduction_(reduction),
          item_(reduction.element_bytes),
          send_(send),
          recv_(recv),
          parts_(Chunks::of(counts)),
          rounds_(static_cast<int>(parts_.start(parts_.count()) * reduction.accumulator_bytes /
                                   all.share_bytes) +
                  1) {}

    [[nodiscard]] Done run() {
        for (int round = 0; round < rounds_; ++round)
            TRY(run(round));
        return {};
    }

  private:
    [[nodiscard]] Done run(int round) {
        std::vector<std::size_t> of_local_ranks(static_cast<std::size_t>(layout_.local_size()));
        std::vector<std::size_t> of_hosts;  // elements that this rank handles for each host
        std::size_t packed_count = 0;
        for (int rail = 0; rail < layout_.rails; ++rail) {
            std::size_t& of_rail = of_local_ranks[static_cast<std::size_t>(rail)];
            for (int host = 0; host < layout_.host_count(); ++host) {
                std::size_t of_host = 0;
                layout_.for_each_on_rail(
                    host, rail, [&](int member) { of_host += slice(member, round).length; });
                of_rail += of_host;
                if (rail == layout_.own_local_rank) of_hosts.push_back(of_host);
            }
            packed_count += of_rail;
        }
        const bool answers = layout_.on_rail();
        const std::size_t sums_count = answers ? of_local_ranks[at(layout_.own_local_rank)] : 0;
        const std::size_t mine_count = answers ? of_hosts[at(layout_.own_host)] : 0;
        const auto [packed, sums, mine, finished] = take_areas(
            all_.scratch, {packed_count * item_, sums_count * reduction_.accumulator_bytes,
                           mine_count * reduction_.accumulator_bytes, mine_count * item_});
        pack(packed.data(), round);
        TRY(reduce_to_rails(all_, reduction_, packed.data(), sums.data(), of_local_ranks));
        if (answers) {
            const auto& algorithm =
                all_.choose<ReduceScatter>(packed_count * reduction_.accumulator_bytes);
            TRY(algorithm.run(all_.across, accumulators_of(reduction_), sums.data(), mine.data(),
                              of_hosts));
        }
        return hand_out(mine.data(), finished, round);
    }

    static std::size_t at(int number) { return static_cast<std::size_t>(number); }

    // Returns the slice of a member's part for a round, relative to the part.
    [[nodiscard]] Slice slice(int member, int round) const {
        return even_slice(parts_[member].length, rounds_, round);
    }

    // Packs this rank's vector in the order of rails and, for each rail, of hosts.
    void pack(std::byte* packed, int round) const {
        for (int rail = 0; rail < layout_.rails; ++rail) {
            for (int host = 0; host < layout_.host_count(); ++host) {
                layout_.for_each_on_rail(host, rail, [&](int member) {
                    const Slice from = slice(member, round);
                    if (from.length == 0) return;
                    std::memcpy(packed, send_ + (parts_.start(member) + from.offset) * item_,
                                from.length * item_);
                    packed += from.length * item_;
                });
            }
        }
    }

    // Finishes this rank's result at its final place, and the results of the members that its rail
    // serves.
    [[nodiscard]] Done hand_out(const std::byte* sums, Bytes finished, int round) const {
        std::vector<ConstBytes> out(at(layout_.local_size()));
        std::vector<Bytes> in(out.size());
        const int me = layout_.local()[at(layout_.own_local_rank)];
        const Bytes result(recv_ + slice(me, round).offset * item_,
                           slice(me, round).length * item_);
        if (layout_.on_rail()) {
            layout_.for_each_on_rail(layout_.own_host, layout_.own_local_rank, [&](int member) {
                const std::size_t count = slice(member, round).length;
                const Bytes target = member == me ? result : finished.first(count * item_);
                reduction_.store(target.data(), sums, count, all_.ranks);
                sums += count * reduction_.accumulator_bytes;
                if (member == me) return;
                out[at(layout_.local_rank_of(member))] = target;
                finished = finished.subspan(target.size());
            });
        } else {
            in[at(layout_.rail_of(layout_.own_local_rank))] = result;
        }
        if (layout_.local_size() == layout_.rails) return {};
        return all_.stage.alltoall(all_.turn, out, in);
    }

    const Hierarchy& all_;
    const Layout& layout_;
    const Reduction& reduction_;
    std::size_t item_;
    const std::byte* send_;
    std::byte* recv_;
    Chunks parts_;
    int rounds_;
};

}  // namespace

Done reduce_scatter_by_rails(const Hierarchy& all, const Reduction& reduction,
                             const std::byte* send, std::byte* recv,
                             std::span<const std::size_t> counts) {
    return ReduceScatterBySeats(all, reduction, send, recv, counts).run();
}

}  // namespace mpi_bridge
