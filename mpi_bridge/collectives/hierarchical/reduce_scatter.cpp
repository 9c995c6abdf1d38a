// SPDX-License-Identifier: Apache-2.0
//
// Each rank in a common seat handles the parts of the members in its seat on all nodes, and of the
// members whose seats are not common and are served by its seat. The same seat of every other node
// handles the same parts.
//
//   1. A node's ranks reduce their vectors, so that each of these seats has the node's sums of the
//      parts that it handles.
//   2. The ranks in one seat of all nodes reduce-scatter these sums. Each then has the results of
//      its own node's members.
//   3. On nodes with more seats than others, results of members in the other seats are passed to
//      them.
//
// A node sends its sums for the other nodes' parts once, and for each other node it receives as
// much as the sums of its own parts. Long vectors are processed in rounds, each with a slice of
// every part, which is arranged in the order of seats before it is reduced.
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
        std::vector<std::size_t> of_seats(static_cast<std::size_t>(layout_.local_size()));
        std::vector<std::size_t> of_hosts;  // elements that this seat handles for each host
        std::size_t packed_count = 0;
        for (int seat = 0; seat < layout_.common_seats; ++seat) {
            std::size_t& of_seat = of_seats[static_cast<std::size_t>(seat)];
            for (int host = 0; host < layout_.host_count(); ++host) {
                std::size_t of_host = 0;
                layout_.for_each_carried(
                    host, seat, [&](int member) { of_host += slice(member, round).length; });
                of_seat += of_host;
                if (seat == layout_.own_seat) of_hosts.push_back(of_host);
            }
            packed_count += of_seat;
        }
        const bool answers = layout_.has_common_seat();
        const std::size_t sums_count = answers ? of_seats[at(layout_.own_seat)] : 0;
        const std::size_t mine_count = answers ? of_hosts[at(layout_.own_host)] : 0;
        const auto [packed, sums, mine, finished] = take_areas(
            all_.scratch, {packed_count * item_, sums_count * reduction_.accumulator_bytes,
                           mine_count * reduction_.accumulator_bytes, mine_count * item_});
        pack(packed.data(), round);
        TRY(reduce_to_seats(all_, reduction_, packed.data(), sums.data(), of_seats));
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

    // Packs this rank's vector in the order of seats and, for each seat, of hosts.
    void pack(std::byte* packed, int round) const {
        for (int seat = 0; seat < layout_.common_seats; ++seat) {
            for (int host = 0; host < layout_.host_count(); ++host) {
                layout_.for_each_carried(host, seat, [&](int member) {
                    const Slice from = slice(member, round);
                    if (from.length == 0) return;
                    std::memcpy(packed, send_ + (parts_.start(member) + from.offset) * item_,
                                from.length * item_);
                    packed += from.length * item_;
                });
            }
        }
    }

    // Finishes this rank's result at its final place, and the results of the members that its seat
    // serves.
    [[nodiscard]] Done hand_out(const std::byte* sums, Bytes finished, int round) const {
        std::vector<ConstBytes> out(at(layout_.local_size()));
        std::vector<Bytes> in(out.size());
        const int me = layout_.local()[at(layout_.own_seat)];
        const Bytes result(recv_ + slice(me, round).offset * item_,
                           slice(me, round).length * item_);
        if (layout_.has_common_seat()) {
            layout_.for_each_carried(layout_.own_host, layout_.own_seat, [&](int member) {
                const std::size_t count = slice(member, round).length;
                const Bytes target = member == me ? result : finished.first(count * item_);
                reduction_.store(target.data(), sums, count, all_.ranks);
                sums += count * reduction_.accumulator_bytes;
                if (member == me) return;
                out[at(layout_.seat_of(member))] = target;
                finished = finished.subspan(target.size());
            });
        } else {
            in[at(layout_.carrier_of(layout_.own_seat))] = result;
        }
        if (layout_.local_size() == layout_.common_seats) return {};
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

Done reduce_scatter_by_seats(const Hierarchy& all, const Reduction& reduction,
                             const std::byte* send, std::byte* recv,
                             std::span<const std::size_t> counts) {
    return ReduceScatterBySeats(all, reduction, send, recv, counts).run();
}

}  // namespace mpi_bridge
