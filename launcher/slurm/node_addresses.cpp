// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/node_addresses.hpp"

#include <chrono>
#include <map>
#include <optional>

#include "base/network.hpp"
#include "slurm/client.hpp"

namespace batchai::slurm {

namespace {

constexpr std::chrono::seconds answer_deadline{10};

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
    return addresses;
}

}  // namespace batchai::slurm
