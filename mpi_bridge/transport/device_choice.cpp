// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "transport/network.hpp"

namespace mpi_bridge {
namespace {

bool has(const std::vector<std::string>& list, const std::string& item) {
    return std::find(list.begin(), list.end(), item) != list.end();
}

bool fit(const NetworkInterface& interface) {
    return interface.up && !interface.loopback && !interface.addresses.empty();
}

struct Claim {
    const char* reason;
    bool (*holds)(const NetworkInterface&, const Network&);
};

// In order of preference, the strongest reason first.
constexpr Claim claims[] = {
    {"it leads to the launcher of the step",
     [](const NetworkInterface& interface, const Network& network) {
         return has(interface.addresses, network.address_to_launcher);
     }},
    {"it has the default route",
     [](const NetworkInterface& interface, const Network& /*network*/) {
         return interface.default_route;
     }},
    {"it is the fastest that is up", [](const NetworkInterface& interface,
                                        const Network& /*network*/) { return interface.hardware; }},
};

}  // namespace

DeviceChoice choose_interface(const Network& network) {
    for (const auto& claim : claims) {
        const NetworkInterface* best = nullptr;
        for (const auto& interface : network.interfaces) {
            if (!fit(interface) || !claim.holds(interface, network)) continue;
            const bool better =
                best == nullptr || interface.speed_mbps > best->speed_mbps ||
                (interface.speed_mbps == best->speed_mbps && interface.name < best->name);
            if (better) best = &interface;
        }
        if (best == nullptr) continue;
        return {{best->name},
                best->name + " (" + best->addresses.front() + ") because " + claim.reason};
    }
    return {{}, "no interface but loopback is up on this host"};
}

}  // namespace mpi_bridge
