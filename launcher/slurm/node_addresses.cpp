// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/node_addresses.hpp"

#include <chrono>

#include "base/network.hpp"
#include "slurm/client.hpp"

namespace batchai::slurm {

namespace {

constexpr std::chrono::seconds answer_deadline{10};

}  // namespace

std::vector<std::string> addresses_of(const std::vector<std::string>& nodes) {
    std::vector<std::string> addresses;
    std::vector<std::string> unresolved;
    for (const std::string& node : nodes) {
        addresses.push_back(base::address_of(node));
        if (addresses.back() == node && base::resolved({.address = node, .port = 0}).empty())
            unresolved.push_back(node);
    }
    if (unresolved.empty()) return addresses;
    const auto daemons = Client(answer_deadline).daemons(unresolved);
    if (!daemons) return addresses;
    for (std::string& address : addresses) {
        // What has an address is no longer the name of a node that does not resolve.
        if (const auto found = daemons->find(address); found != daemons->end())
            address = base::address_of(found->second.address);
    }
    return addresses;
}

}  // namespace batchai::slurm
