// SPDX-License-Identifier: Apache-2.0
//
// The cost formulas, for n ranks and a vector of S bytes. A transfer and the reduction of its data
// overlap only if the algorithm works in segments that stay in the cache, as the ring does, or
// reduces what one rank has sent while others send. Reductions of whole vectors count in full,
// because the data has been through memory in between. tests/bench/scale runs the algorithms over a
// modelled network for comparison.
#include "collectives/select/algorithms.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "collectives/algorithms/tree.hpp"

namespace mpi_bridge {

// Only the tables below call these by name.
Allreduce::Run allreduce_recursive_quadrupling, allreduce_circulant, allreduce_direct,
    allreduce_ring;
Reduce::Run reduce_binomial, reduce_halving;
ReduceScatter::Run reduce_scatter_circulant, reduce_scatter_ring;
Allgather::Run allgather_bruck, allgather_ring;
Broadcast::Run broadcast_binomial, broadcast_scatter_allgather, broadcast_chain;
Alltoall::Run alltoall_bruck;

namespace {

double logarithm(int ranks) {
    return static_cast<double>(std::bit_width(static_cast<unsigned>(ranks) - 1));
}

// What a rank moves at least in a reduce-scatter or an allgather.
double least_moved(const Case& call) {
    return others_share(call) * call.bytes;
}

// See allreduce_recursive_multiplying.cpp: groups of `radix` for each digit, then one group of the
// rest; two more messages if some ranks sit out.
Estimate estimate_recursive_multiplying(const Case& call, int radix) {
    long players = 1;
    Cost cost;
    const auto meet = [&](int members) {
        const double others = members - 1.0;
        cost.messages += 1;
        cost.further += others - 1;
        cost.bytes += others * call.bytes;
        cost.reduced += others * call.bytes;
    };
    for (; players * radix <= call.ranks; players *= radix)
        meet(radix);
    const auto rest = static_cast<int>(call.ranks / players);
    if (rest > 1) meet(rest);
    players *= rest;
    if (players < call.ranks) {
        cost.messages += 2;
        cost.bytes += 2 * call.bytes;
        cost.reduced += call.bytes;
    }
    return {cost, {}};
}

// Estimates `steps` steps of a ring. A step takes as long as one segment needs to arrive, be
// reduced and be sent on, or as long as the whole chunk takes on the link, if that is longer: its
// segments follow each other without a pause. See ring::cut_for().
Estimate estimate_ring(const Case& call, double steps, bool reduces) {
    constexpr double tracks = 4;
    constexpr double least_segment = 32.0 * 1024;
    const double chunk = call.bytes / call.ranks;
    const double longest =
        std::min(call.segment_bytes, std::max(least_segment, std::ceil(chunk / tracks)));
    const double segment = std::min(chunk, longest);
    const double segments = std::ceil(chunk / longest);
    const double reduction = reduces ? (call.ranks - 1) * segment : 0;
    Estimate estimate;
    estimate.steps = {steps, steps * segment, reduction};
    estimate.busiest = {
        .messages = 1, .bytes = steps * chunk, .reduced = segment, .streamed = steps * segments};
    return estimate;
}

Estimate in_steps(double messages, double bytes, double reduced) {
    return {{messages, bytes, reduced}, {}};
}

// See allreduce_direct.cpp: two steps, with a message for each other rank. A block is reduced while
// those of later ranks arrive, so either all but the last one's reduction is hidden, or, where
// memory is slower than the network, the whole first transfer. The model knows nothing of switches
// whose buffers overflow when many ranks send to one, so it is for few ranks only.
Estimate estimate_direct(const Case& call) {
    constexpr int most_ranks = 8;
    if (call.ranks > most_ranks) return in_steps(std::numeric_limits<double>::infinity(), 0, 0);
    const double further = call.ranks - 2.0;
    return {{2, 2 * least_moved(call), call.bytes / call.ranks, 2 * further},
            {2, least_moved(call), least_moved(call), 2 * further}};
}

// The chain: the first segment passes all hops, and the others follow it without a pause.
Estimate estimate_chain(const Case& call) {
    const double segment = std::min(call.bytes, static_cast<double>(pipeline_segment(
                                                    static_cast<std::size_t>(call.bytes),
                                                    static_cast<std::size_t>(call.segment_bytes))));
    const double segments = segment > 0 ? std::ceil(call.bytes / segment) : 0;
    const double hops = call.ranks - 1.0;
    return {{.messages = hops,
             .bytes = call.bytes + (hops - 1) * segment,
             .streamed = std::max(0.0, segments - 1)},
            {}};
}

// See alltoall_pairwise.cpp: short messages go together, in batches.
Estimate estimate_pairwise(const Case& call) {
    constexpr double at_once = 32;
    const double batches = std::ceil((call.ranks - 1.0) / at_once);
    return {{batches, least_moved(call), 0, call.ranks - 1.0 - batches}, {}};
}

// See alltoall_bruck.cpp: half of the slots move in each step, and are copied before and after it.
// The ranks have to agree on the longest message before that.
Estimate estimate_bruck(const Case& call) {
    const double steps = logarithm(call.ranks);
    return in_steps(2 * steps, steps * call.bytes / 2, (steps + 2) * call.bytes);
}

constexpr Algorithm<Allreduce> allreduces[] = {
    {.name = "recursive_doubling",
     .estimate = [](const Case& call) { return estimate_recursive_multiplying(call, 2); },
     .run = allreduce_recursive_doubling},
    {.name = "recursive_quadrupling",
     .estimate = [](const Case& call) { return estimate_recursive_multiplying(call, 4); },
     .run = allreduce_recursive_quadrupling},
    {.name = "halving_doubling",
     .estimate =
         [](const Case& call) {
             return in_steps(2 * logarithm(call.ranks), 2 * least_moved(call), least_moved(call));
         },
     .run = allreduce_circulant,
     .reduce_scatter = reduce_scatter_circulant,
     .allgather = allgather_bruck},
    {.name = "direct",
     .estimate = estimate_direct,
     .run = allreduce_direct,
     .reduce_scatter = reduce_scatter_circulant,
     .allgather = allgather_bruck},
    {.name = "ring",
     .estimate = [](const Case& call) { return estimate_ring(call, 2 * (call.ranks - 1), true); },
     .run = allreduce_ring,
     .reduce_scatter = reduce_scatter_ring,
     .allgather = allgather_ring},
};

constexpr Algorithm<Reduce> reduces[] = {
    {.name = "binomial",
     .estimate =
         [](const Case& call) {
             const double steps = logarithm(call.ranks);
             return in_steps(steps, steps * call.bytes, steps * call.bytes);
         },
     .run = reduce_binomial},
    {.name = "halving",
     .estimate =
         [](const Case& call) {
             return in_steps(2 * logarithm(call.ranks), 2 * least_moved(call), least_moved(call));
         },
     .run = reduce_halving},
};

constexpr Algorithm<ReduceScatter> reduce_scatters[] = {
    {.name = "halving",
     .estimate =
         [](const Case& call) {
             return in_steps(logarithm(call.ranks), least_moved(call), least_moved(call));
         },
     .run = reduce_scatter_circulant},
    {.name = "ring",
     .estimate = [](const Case& call) { return estimate_ring(call, call.ranks - 1, true); },
     .run = reduce_scatter_ring},
};

constexpr Algorithm<Allgather> allgathers[] = {
    // Bruck's algorithm copies everything through scratch memory.
    {.name = "bruck",
     .estimate =
         [](const Case& call) {
             return in_steps(logarithm(call.ranks), least_moved(call), call.bytes);
         },
     .run = allgather_bruck},
    {.name = "ring",
     .estimate = [](const Case& call) { return estimate_ring(call, call.ranks - 1, false); },
     .run = allgather_ring},
};

constexpr Algorithm<Broadcast> broadcasts[] = {
    {.name = "binomial",
     .estimate =
         [](const Case& call) {
             const double steps = logarithm(call.ranks);
             return in_steps(steps, steps * call.bytes, 0);
         },
     .run = broadcast_binomial},
    {.name = "scatter_allgather",
     .estimate =
         [](const Case& call) {
             return in_steps(2 * logarithm(call.ranks), 2 * least_moved(call), 0);
         },
     .run = broadcast_scatter_allgather},
    {.name = "chain", .estimate = estimate_chain, .run = broadcast_chain},
};

// By the bytes that a rank would send to all ranks if all messages were as long as the longest.
constexpr Algorithm<Alltoall> alltoalls[] = {
    {.name = "pairwise", .estimate = estimate_pairwise, .run = alltoall_pairwise},
    {.name = "bruck",
     .estimate = estimate_bruck,
     .run = alltoall_bruck,
     .sends_through_others = true},
};

}  // namespace

template <>
std::span<const Algorithm<Allreduce>> algorithms<Allreduce>() {
    return allreduces;
}
template <>
std::span<const Algorithm<Reduce>> algorithms<Reduce>() {
    return reduces;
}
template <>
std::span<const Algorithm<ReduceScatter>> algorithms<ReduceScatter>() {
    return reduce_scatters;
}
template <>
std::span<const Algorithm<Allgather>> algorithms<Allgather>() {
    return allgathers;
}
template <>
std::span<const Algorithm<Broadcast>> algorithms<Broadcast>() {
    return broadcasts;
}
template <>
std::span<const Algorithm<Alltoall>> algorithms<Alltoall>() {
    return alltoalls;
}

}  // namespace mpi_bridge
