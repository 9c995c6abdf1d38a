// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/topology.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

namespace mpi_bridge {
namespace {

Done check_every_rank_once(const std::vector<std::vector<int>>& hosts, std::size_t size) {
    std::vector<bool> seen(size, false);
    for (const auto& ranks : hosts) {
        for (const int rank : ranks) {
            const auto index = static_cast<std::size_t>(rank);
            if (rank < 0 || index >= size || seen[index]) {
                return fail(MPIB_ERROR_BOOTSTRAP,
                            "the launcher's map of hosts names rank " + std::to_string(rank) +
                                " twice, or out of range for " + std::to_string(size) + " ranks");
            }
            seen[index] = true;
        }
    }
    return {};
}

}  // namespace

Outcome<Topology> make_topology(int rank, std::vector<std::vector<int>> hosts) {
    std::erase_if(hosts, [](const auto& ranks) { return ranks.empty(); });
    std::size_t size = 0;
    for (auto& ranks : hosts) {
        std::sort(ranks.begin(), ranks.end());
        size += ranks.size();
    }
    TRY(check_every_rank_once(hosts, size));
    std::sort(hosts.begin(), hosts.end(),
              [](const auto& a, const auto& b) { return a.front() < b.front(); });

    const auto has_rank = [rank](const auto& ranks) {
        return std::binary_search(ranks.begin(), ranks.end(), rank);
    };
    const auto own = std::find_if(hosts.begin(), hosts.end(), has_rank);
    if (own == hosts.end()) {
        return fail(MPIB_ERROR_BOOTSTRAP, "the launcher's map of hosts does not name rank " +
                                              std::to_string(rank) + ", which is this process");
    }
    const auto local_rank = std::lower_bound(own->begin(), own->end(), rank) - own->begin();
    const auto has_peer = [local_rank](const auto& ranks) {
        return static_cast<std::ptrdiff_t>(ranks.size()) > local_rank;
    };

    Topology topology;
    topology.rank = rank;
    topology.size = static_cast<int>(size);
    topology.local_rank = static_cast<int>(local_rank);
    topology.local_size = static_cast<int>(own->size());
    topology.cross_rank = static_cast<int>(std::count_if(hosts.begin(), own, has_peer));
    topology.cross_size = static_cast<int>(std::count_if(hosts.begin(), hosts.end(), has_peer));
    topology.homogeneous = std::all_of(hosts.begin(), hosts.end(), [&hosts](const auto& ranks) {
        return ranks.size() == hosts.front().size();
    });
    topology.host_of_rank.resize(size);
    for (std::size_t host = 0; host < hosts.size(); ++host) {
        for (const int member : hosts[host])
            topology.host_of_rank[static_cast<std::size_t>(member)] = static_cast<int>(host);
    }
    return topology;
}

}  // namespace mpi_bridge
