// SPDX-License-Identifier: Apache-2.0
//
// The cost formulas, for n ranks and a vector of S bytes. A transfer and the reduction of its data
// overlap only if the algorithm works in segments that stay in the cache, as the ring does, or
// reduces what one rank has sent while others send. Reductions of whole vectors count in full,
// because the data has been through memory in between. tests/bench/scale runs the algorithms over a
// modelled network for comparison.
#include "collectives/select/cost.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace mpi_bridge {
namespace {

double logarithm(int ranks) {
    return static_cast<double>(std::bit_width(static_cast<unsigned>(ranks) - 1));
}

double others_share(const Case& call) {
    return (call.ranks - 1.0) / call.ranks;
}

// See allreduce_recursive_multiplying.cpp: groups of `radix` for each digit, then one group of the
// rest; two more messages if some ranks sit out.
Estimate recursive_multiplying(const Case& call, int radix) {
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
Estimate ring(const Case& call, double steps, bool reduces) {
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
    estimate.busiest = {1, steps * chunk, segment, steps * segments};
    return estimate;
}

Estimate in_steps(double messages, double bytes, double reduced) {
    return {{messages, bytes, reduced}, {}};
}

// See allreduce_direct.cpp: two steps, with a message for each other rank. A block is reduced while
// those of later ranks arrive, so either all but the last one's reduction is hidden, or, where
// memory is slower than the network, the whole first transfer. The model knows nothing of switches
// whose buffers overflow when many ranks send to one, so it is for few ranks only.
Estimate direct(const Case& call) {
    constexpr int most_ranks = 8;
    if (call.ranks > most_ranks) return in_steps(std::numeric_limits<double>::infinity(), 0, 0);
    const double moved = others_share(call) * call.bytes;
    const double further = call.ranks - 2.0;
    return {{2, 2 * moved, call.bytes / call.ranks, 2 * further}, {2, moved, moved, 2 * further}};
}

}  // namespace

double Estimate::seconds(const Model& model) const {
    return std::max(steps.seconds(model), busiest.seconds(model));
}

template <>
std::vector<Estimate> estimates<AllreduceAlgorithm>(const Case& call) {
    const double moved = others_share(call) * call.bytes;
    return {recursive_multiplying(call, 2), recursive_multiplying(call, 4),
            in_steps(2 * logarithm(call.ranks), 2 * moved, moved), direct(call),
            ring(call, 2 * (call.ranks - 1), true)};
}

template <>
std::vector<Estimate> estimates<ReduceAlgorithm>(const Case& call) {
    const double steps = logarithm(call.ranks);
    const double moved = others_share(call) * call.bytes;
    return {in_steps(steps, steps * call.bytes, steps * call.bytes),
            in_steps(2 * steps, 2 * moved, moved)};
}

template <>
std::vector<Estimate> estimates<ReduceScatterAlgorithm>(const Case& call) {
    const double moved = others_share(call) * call.bytes;
    return {in_steps(logarithm(call.ranks), moved, moved), ring(call, call.ranks - 1, true)};
}

template <>
std::vector<Estimate> estimates<AllgatherAlgorithm>(const Case& call) {
    const double moved = others_share(call) * call.bytes;
    // Bruck's algorithm copies everything through scratch memory.
    return {in_steps(logarithm(call.ranks), moved, call.bytes), ring(call, call.ranks - 1, false)};
}

template <>
std::vector<Estimate> estimates<BroadcastAlgorithm>(const Case& call) {
    const double steps = logarithm(call.ranks);
    const double segment = std::min(call.bytes, call.segment_bytes);
    const double segments = segment > 0 ? std::ceil(call.bytes / segment) : 0;
    const double hops = call.ranks - 1.0;
    return {in_steps(steps, steps * call.bytes, 0),
            in_steps(2 * steps, 2 * others_share(call) * call.bytes, 0),
            // The chain: the first segment passes all hops, and the others follow it without a
            // pause.
            {{hops, call.bytes + (hops - 1) * segment, 0, std::max(0.0, segments - 1)}, {}}};
}

std::size_t longest_joined_message(const Model& model, int ranks_of_host) {
    // With L ranks on each of h hosts, either every rank posts (h-1)*L messages of its own, or its
    // leader posts h-1 for all of them. The leader then has to copy the data of the L*L*(h-1)
    // messages four times: from shared memory, into a message, out of one and back. Per message and
    // rank:
    //   saved alpha * (1 - 1/L)   paid  4 * L * m * gamma
    // The bytes on the network are the same.
    if (ranks_of_host < 2) return 0;
    constexpr double longest = 64.0 * 1024;
    const double saved = model.alpha * (1 - 1.0 / ranks_of_host);
    const double bytes = std::min(saved / (4.0 * ranks_of_host * model.gamma), longest);
    return std::bit_floor(static_cast<std::size_t>(bytes));
}

double least_allreduce_seconds(const Case& call, const Model& model) {
    // The unit of time is the posting of one message; alpha has `latency` units. Each rank that
    // knew something at time t - latency can make a message arrive at time t.
    constexpr auto latency = static_cast<std::size_t>(1 / Model::further_message);
    std::vector<long> knowing(latency, 1);  // how many ranks can know at each time
    while (knowing.back() < call.ranks)
        knowing.push_back(knowing.back() + knowing[knowing.size() - latency]);
    const auto units = static_cast<double>(knowing.size() - 1);
    const double moved = others_share(call) * call.bytes;
    return std::max({units * Model::further_message * model.alpha, 2 * moved * model.beta,
                     moved * model.gamma});
}

}  // namespace mpi_bridge
