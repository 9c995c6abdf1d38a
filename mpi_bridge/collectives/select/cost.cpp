// SPDX-License-Identifier: Apache-2.0
#include "collectives/select/cost.hpp"

#include <algorithm>
#include <bit>
#include <vector>

namespace mpi_bridge {

double Estimate::seconds(const Model& model) const {
    return std::max(steps.seconds(model), busiest.seconds(model));
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
