// SPDX-License-Identifier: Apache-2.0
#include "collectives/hierarchical.hpp"

#include <algorithm>
#include <vector>

#include "collectives/collectives.hpp"
#include "shm/even_slice.hpp"

namespace mpi_bridge {
namespace {

// A rank's share of what is worked on at once; bounds the memory for accumulators.
constexpr std::size_t share_bytes = 8UL * 1024 * 1024;

constexpr int leader = 0;  // seat

}  // namespace

Done allreduce_by_leaders(const Hierarchy& all, const Reduction& reduction, const std::byte* send,
                          std::byte* recv, std::size_t count) {
    const std::size_t longest = share_bytes / reduction.accumulator_bytes;
    std::byte* sums = nullptr;
    if (all.layout.leads()) {
        sums = all.partial.take(std::min(count, longest) * reduction.accumulator_bytes).data();
    }
    for (std::size_t at = 0; at < count; at += longest) {
        const std::size_t length = std::min(longest, count - at);
        const std::byte* from = send + at * reduction.element_bytes;
        std::byte* to = recv + at * reduction.element_bytes;
        auto done = all.stage.reduce(all.turn, reduction, from, sums, length, leader);
        if (!done) return done;
        if (all.layout.leads()) {
            done = all.allreduce_in_place(*all.leaders, accumulators_of(reduction), sums, length);
            if (!done) return done;
            reduction.store(to, sums, length, all.ranks);
        }
        done = all.stage.broadcast(all.turn, Bytes(to, length * reduction.element_bytes), leader);
        if (!done) return done;
    }
    return {};
}

Done allreduce_by_slices(const Hierarchy& all, const Reduction& reduction, const std::byte* send,
                         std::byte* recv, std::size_t count) {
    const int seats = all.layout.local_size();
    const std::size_t share = share_bytes / reduction.accumulator_bytes;
    const std::size_t longest = share * static_cast<std::size_t>(seats);
    std::byte* sums = all.partial.take(std::min(count, share) * reduction.accumulator_bytes).data();
    std::vector<Bytes> parts(static_cast<std::size_t>(seats));

    for (std::size_t at = 0; at < count; at += longest) {
        const std::size_t length = std::min(longest, count - at);
        const std::byte* from = send + at * reduction.element_bytes;
        std::byte* to = recv + at * reduction.element_bytes;
        for (int seat = 0; seat < seats; ++seat) {
            const Slice slice = even_slice(length, seats, seat);
            parts[static_cast<std::size_t>(seat)] = {to + slice.offset * reduction.element_bytes,
                                                     slice.length * reduction.element_bytes};
        }
        if (auto done = all.stage.reduce_scatter(all.turn, reduction, from, sums, length); !done) {
            return done;
        }
        const Slice own = even_slice(length, seats, all.layout.own_seat);
        auto done =
            all.allreduce_in_place(all.across, accumulators_of(reduction), sums, own.length);
        if (!done) return done;
        reduction.store(to + own.offset * reduction.element_bytes, sums, own.length, all.ranks);
        if (done = all.stage.allgather(all.turn, parts); !done) return done;
    }
    return {};
}

Done reduce_by_leaders(const Hierarchy& all, const Reduction& reduction, const std::byte* send,
                       std::byte* recv, std::size_t count, int root_host, int root_seat) {
    std::byte* sums = nullptr;
    if (all.layout.leads()) sums = all.partial.take(count * reduction.accumulator_bytes).data();
    if (auto done = all.stage.reduce(all.turn, reduction, send, sums, count, leader); !done) {
        return done;
    }
    if (all.layout.leads()) {
        auto done =
            reduce_binomial(*all.leaders, accumulators_of(reduction), sums, sums, count, root_host);
        if (!done) return done;
    }
    if (all.layout.own_host != root_host) return {};
    // The leader finishes the result and shows it to its node, of which only the root wants it.
    const bool is_root = all.layout.own_seat == root_seat;
    const std::size_t bytes = count * reduction.element_bytes;
    if (root_seat == leader) {
        if (is_root) reduction.store(recv, sums, count, all.ranks);
        return {};
    }
    std::vector<std::byte> shown(is_root ? 0 : bytes);
    if (all.layout.leads()) reduction.store(shown.data(), sums, count, all.ranks);
    return all.stage.broadcast(all.turn, Bytes(is_root ? recv : shown.data(), bytes), leader);
}

Done broadcast_by_leaders(const Hierarchy& all, Bytes data, int root_host, int root_seat) {
    const bool at_root = all.layout.own_host == root_host;
    if (at_root) {
        if (auto done = all.stage.broadcast(all.turn, data, root_seat); !done) return done;
    }
    if (all.layout.leads()) {
        if (auto done = all.broadcast(*all.leaders, data, root_host); !done) return done;
    }
    return at_root ? Done() : all.stage.broadcast(all.turn, data, leader);
}

Done barrier_by_leaders(const Hierarchy& all) {
    if (auto done = all.stage.barrier(all.turn); !done) return done;
    if (all.layout.leads()) {
        if (auto done = barrier_dissemination(*all.leaders); !done) return done;
    }
    return all.stage.barrier(all.turn);
}

}  // namespace mpi_bridge
