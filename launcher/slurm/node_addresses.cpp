// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/node_addresses.hpp"

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "base/network.hpp"
#include "slurm/client.hpp"

namespace batchai::slurm {

namespace {

constexpr std::chrono::seconds answer_deadline{10};

// Gives this node an address that the other nodes can use, if its name has none here.
void find_own_address(const std::vector<std::string>& nodes, std::vector<std::string>& addresses) {
    for (std::size_t own = 0; own < nodes.size(); ++own) {
        if (addresses[own] != nodes[own] || !base::is_loopback_only(nodes[own])) continue;
        for (std::size_t other = 0; other < nodes.size() && addresses[own] == nodes[own]; ++other) {
            if (addresses[other] == nodes[other]) continue;
            if (auto found = base::own_address_towards(addresses[other]))
                addresses[own] = *std::move(found);
        }
    }
}

}  // namespace

std::vector<std::string> addresses_of(const std::vector<std::string>& nodes) {
    // Slurm is asked once, for all nodes, when the first of them has no address: a resolver may
    // take half a minute to say so of each.
    std::optional<std::map<std::string, base::Endpoint>> known;
    std::vector<std::string> addresses;
    const auto named_by_slurm = [&](const std::string& node) {
        const auto found = known->find(node);
        return base::address_of(found == known->end() ? node : found->second.address);
    };
    for (const std::string& node : nodes) {
        if (known) {
            addresses.push_back(named_by_slurm(node));
            continue;
        }
        addresses.push_back(base::address_of(node));
        if (addresses.back() != node || !base::resolved({.address = node, .port = 0}).empty())
            continue;
        known = Client(answer_deadline)
                    .daemons(nodes)
                    .value_or(std::map<std::string, base::Endpoint>());
        addresses.back() = named_by_slurm(node);
    }
    find_own_address(nodes, addresses);
    return addresses;
}

}  // namespace batchai::slurm
