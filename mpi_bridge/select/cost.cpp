// SPDX-License-Identifier: Apache-2.0
//
// The cost formulas, for n ranks and S bytes; L = ceil(log2 n), and f = (n-1)/n is the share of a
// vector that is not a rank's own. A transfer and the reduction of what it brings overlap only
// where the algorithm works in segments that stay in the cache, as the ring does: there only the
// reduction of one segment per step is left. Reductions of whole vectors or blocks count in full,
// since these have gone through memory meanwhile.
#include "select/cost.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace mpi_bridge {
namespace {

double logarithm(int ranks) {
    return static_cast<double>(std::bit_width(static_cast<unsigned>(ranks) - 1));
}

double others_share(const Case& call) {
    return (call.ranks - 1.0) / call.ranks;
}

// See allreduce_recursive_multiplying.cpp: groups of `radix` as long as the players divide by it,
// then one group of what is left; two more messages where some ranks sit out.
Cost recursive_multiplying(const Case& call, int radix) {
    long players = 1;
    Cost cost;
    const auto meet = [&](int members) {
        const double others = members - 1.0;
        cost.messages += 1 + (others - 1) * Model::further_message;
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
    return cost;
}

// What the ring's overlap leaves of the reduction: a segment per step. See ring::cut_for().
double exposed_in_ring(const Case& call) {
    constexpr double tracks = 4;
    constexpr double least_segment = 32.0 * 1024;
    const double chunk = call.bytes / call.ranks;
    const double segment = std::min(call.segment_bytes, std::max(least_segment, chunk / tracks));
    return (call.ranks - 1) * std::min(chunk, segment);
}

}  // namespace

template <>
std::vector<Cost> costs<AllreduceAlgorithm>(const Case& call) {
    const double n = call.ranks;
    const double moved = others_share(call) * call.bytes;
    return {recursive_multiplying(call, 2), recursive_multiplying(call, 4),
            Cost{2 * logarithm(call.ranks), 2 * moved, moved},
            Cost{2 * (n - 1), 2 * moved, exposed_in_ring(call)}};
}

template <>
std::vector<Cost> costs<ReduceAlgorithm>(const Case& call) {
    const double steps = logarithm(call.ranks);
    const double moved = others_share(call) * call.bytes;
    return {Cost{steps, steps * call.bytes, steps * call.bytes}, Cost{2 * steps, 2 * moved, moved}};
}

template <>
std::vector<Cost> costs<ReduceScatterAlgorithm>(const Case& call) {
    const double moved = others_share(call) * call.bytes;
    return {Cost{logarithm(call.ranks), moved, moved},
            Cost{call.ranks - 1.0, moved, exposed_in_ring(call)}};
}

template <>
std::vector<Cost> costs<AllgatherAlgorithm>(const Case& call) {
    const double moved = others_share(call) * call.bytes;
    // Bruck's copies everything twice through scratch memory.
    return {Cost{logarithm(call.ranks), moved, call.bytes}, Cost{call.ranks - 1.0, moved, 0}};
}

template <>
std::vector<Cost> costs<BroadcastAlgorithm>(const Case& call) {
    const double steps = logarithm(call.ranks);
    const double segment = std::min(call.bytes, call.segment_bytes);
    const double segments = segment > 0 ? std::ceil(call.bytes / segment) : 0;
    const double hops = call.ranks - 1.0;
    // The chain: the first segment goes all the way, the others follow close behind.
    const Cost chain{hops + std::max(0.0, segments - 1) * Model::further_message,
                     call.bytes + (hops - 1) * segment, 0};
    return {Cost{steps, steps * call.bytes, 0},
            Cost{2 * steps, 2 * others_share(call) * call.bytes, 0}, chain};
}

Cost allreduce_bound(const Case& call) {
    const double moved = others_share(call) * call.bytes;
    return {logarithm(call.ranks), 2 * moved, moved};
}

}  // namespace mpi_bridge
